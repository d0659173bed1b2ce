"""Inverts the colours of an image. README.md says what is kept, and what is refused."""

import struct
import zlib
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image, ImageChops, ImageOps, PngImagePlugin

from invert_image.refusal import reason_for
from invert_image.stamp import XMP

_MAXIMUM_FRAMES = 2_000  # limits the time that many small frames take
_WEBP_SIDE_PIXELS = 16_383  # of what can be written: the canvas of an animation may be larger

PngImagePlugin.MAX_TEXT_CHUNK = 2**24  # also the limit of an ICC profile
_PNG_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"iCCP", b"eXIf", b"acTL", b"IDAT", b"IEND"}
_RAW_EXIF = "Raw profile type exif"  # a text with EXIF, from before PNG had `eXIf`


class InvalidImage(ValueError):
    """The bytes are not an image that can be inverted. A retry cannot help."""


@dataclass(frozen=True)
class InvertedImage:
    """An image file and the media type of its format."""

    content: bytes
    content_type: str


def invert(content: bytes, maximum_pixels: int) -> InvertedImage:
    """Invert the colours of an image file. The same bytes always give the same result.

    Parameters
    ----------
    maximum_pixels
        The most pixels (width times height) that all frames together may have. Each takes up to
        16 bytes of memory, in lossless WebP up to 45 (measured).
    """
    # Pillow checks the size of one frame before it allocates memory, and allows twice as many.
    Image.MAX_IMAGE_PIXELS = maximum_pixels
    try:
        file_format, frames, options = _decode(content, maximum_pixels)
    except (InvalidImage, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise InvalidImage(f"too large: more than {maximum_pixels} pixels") from error
    except Exception as error:  # Damaged bytes make Pillow raise errors of almost any type.
        raise InvalidImage(reason_for(content)) from error
    output = BytesIO()
    try:
        frames[0].save(output, file_format, append_images=frames[1:], **options)
    except (OverflowError, struct.error) as error:  # equal frames become one, which lasts too long
        raise InvalidImage("A frame lasts longer than its format can say.") from error
    return InvertedImage(output.getvalue(), Image.MIME[file_format])


def _decode(content: bytes, maximum_pixels: int) -> tuple[str, list[Image.Image], dict[str, Any]]:
    """Give the format, the frames, inverted and upright, and the options with which to save them.

    They cannot be streamed, because Pillow's writers read the frames more than once.
    """
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        content = _without_texts(content)
    # Pillow opens many more formats, some with other programs (EPS with Ghostscript).
    source: Any = Image.open(BytesIO(content), formats=("GIF", "JPEG", "PNG", "WEBP"))
    if source.get_format_mimetype() == "image/apng":
        raise InvalidImage("The file is an animated PNG, whose frames Pillow would compose wrong.")
    # The first picture of several ones (MPO) counts.
    file_format = source.format.replace("MPO", "JPEG")
    frames, count = [], source.n_frames if file_format in {"GIF", "WEBP"} else 1
    for number in range(count):
        source.seek(number)
        pixels = source.width * source.height * count
        if pixels > maximum_pixels or count > _MAXIMUM_FRAMES:
            allowed = f"{maximum_pixels} in {_MAXIMUM_FRAMES} are allowed"
            raise InvalidImage(f"too large: {pixels} pixels in {count} frame(s); {allowed}")
        source.load()
        frames.append(_upright(_inverted(source, content)))
    options: dict[str, Any] = {"icc_profile": source.info.get("icc_profile")}
    if file_format == "JPEG":
        options |= {"quality": 90, "subsampling": "4:4:4"}
    elif file_format == "WEBP":
        if max(source.size) > _WEBP_SIDE_PIXELS:
            raise InvalidImage("The canvas is larger than that of a WebP without animation.")
        # Pillow does not say which kind it is. The name of the first chunk with pixels does.
        lossless = b"VP8L" in content.partition(b"VP8 ")[0]
        # Of lossless pixels, it is the effort: 80 takes twice as long as 50.
        options |= {"lossless": lossless, "quality": 50 if lossless else 90, "xmp": XMP}
    elif file_format == "GIF" and any(frame.has_transparency_data for frame in frames):
        options["disposal"] = 2  # clears the canvas before the next frame
        frames = [_indexed(frame) for frame in frames]
    if count > 1:
        durations = [frame.info.get("duration", 0) for frame in frames]
        options |= {"duration": durations, "loop": source.info.get("loop")}
    return file_format, frames, options


def _without_texts(content: bytes) -> bytes:
    """Leave out the chunks of a PNG that are not needed: Pillow would refuse a long text.

    Pillow does not look at the checksums of pixels.
    """
    kept, start, name = [content[:8]], 8, b""
    while name != b"IEND":
        length, name = struct.unpack_from(">I4s", content, start)
        chunk = content[start : start + 12 + length]
        start += len(chunk)
        if name in _PNG_CHUNKS or chunk.startswith(_RAW_EXIF.encode(), 8):
            if zlib.crc32(chunk[4:-4]) != int.from_bytes(chunk[-4:], "big"):
                raise ValueError("a wrong checksum")
            kept.append(chunk)
    return b"".join(kept)


def _inverted(image: Image.Image, content: bytes) -> Image.Image:
    """Invert the pixels of a loaded image or, if it has one, its palette."""
    depth = content[24] if image.format == "PNG" else 8
    # One colour may be transparent. In a palette, it keeps its index.
    is_keyed = "transparency" in image.info and image.mode != "P"
    match depth, image.mode, is_keyed:
        case (16, "RGB" | "RGBA", _) | (2 | 4 | 16, _, True):
            raise InvalidImage(f"A PNG of {depth} bits per sample, which Pillow would change.")
    if is_keyed:
        image = image.convert("RGBA")
    match image.mode:
        case "P":
            if any(image.histogram()[len(image.getpalette() or ()) // 3 :]):
                raise InvalidImage("A pixel has a colour beyond the palette.")
            return ImageOps.invert(image)
        case "I;16":
            return image.point(lambda sample: 65_535 - sample)
        case "1" | "L" | "RGB":
            return ImageChops.invert(image)  # faster than a table: a tenth of a JPEG's whole time
        case "LA" | "RGBA":
            return image.point([*range(255, -1, -1)] * (len(image.getbands()) - 1) + [*range(256)])
        case _:
            # CMYK: Pillow would ignore the profile.
            raise InvalidImage(f"The colours of an image in {image.mode} depend on its profile.")


def _indexed(image: Image.Image) -> Image.Image:
    """Give a frame of a GIF 255 colours and a transparent one. Pillow would change more of them."""
    visible = image.convert("RGBA").getchannel("A")
    colours = Image.composite(image.convert("RGB"), Image.new("RGB", image.size), visible)
    indexed = colours.quantize(255, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    indexed.paste(255, mask=ImageChops.invert(visible))
    indexed.info = image.info | {"transparency": 255}
    return indexed


def _upright(image: Image.Image) -> Image.Image:
    """Turn an image as its EXIF data say, and leave out what its writer would take from `info`."""
    needed = {"duration", "exif", _RAW_EXIF, "transparency"}
    image.info = {name: value for name, value in image.info.items() if name in needed}
    try:
        ImageOps.exif_transpose(image, in_place=True)
    except MemoryError:
        raise
    except Exception:  # noqa: S110 - damaged EXIF data say nothing
        pass
    return image
