"""Inverts the colours of an image, and keeps the rest as far as README.md says."""

import re
import struct
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image, ImageChops, ImageFile, ImageSequence
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from invert_image.metadata import exif_without_pictures, jpeg_segments, png_chunks, xmp_of_inverse
from invert_image.refusal import reason_for
from invert_image.stamp import EMPTY_XMP, PNG_HEADER_END

# `invert` checks its own limit before it decodes. Pillow only warns of some images over its limit.
Image.MAX_IMAGE_PIXELS = None

# And GIF. Pillow opens many more formats, some with other programs (EPS with Ghostscript).
_FORMATS = ("JPEG", "PNG", "WEBP")

# Limits the time that many small frames take.
_MAXIMUM_FRAMES = 2_000

# The maximum of one segment of a JPEG, of its pixels per inch, and of one side of a WebP.
_JPEG_SEGMENT_BYTES = 65_533
_JFIF_DENSITY = 65_535
_WEBP_SIDE_PIXELS = 16_383

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEEP = 16  # bits per sample

_KEPT = bytes(range(256))
_INVERTED = _KEPT[::-1]

# What Pillow's readers find and its writers accept. The rest is in `metadata`.
_INFO = {
    "JPEG": ("dpi", "icc_profile"),
    "PNG": ("default_image", "duration", "loop"),
    "WEBP": ("duration", "icc_profile", "loop"),
}


class InvalidImage(ValueError):
    """The bytes are not an image that can be inverted. A retry cannot help."""


@dataclass(frozen=True)
class InvertedImage:
    """An image file and the media type of its format."""

    content: bytes
    content_type: str


def invert(content: bytes, maximum_pixels: int) -> InvertedImage:
    """Invert the colours of an image file.

    The same bytes always give the same result.

    Parameters
    ----------
    content
        The bytes of a GIF, JPEG, PNG (or APNG) or WebP file.
    maximum_pixels
        The most pixels (width times height) that all frames together may have. Each takes up to
        16 bytes of memory, in lossless WebP up to 45 (measured).

    Returns
    -------
    InvertedImage
        The inverted image, in the format of `content`.

    Raises
    ------
    InvalidImage
        The format is none of these, the image is damaged or too large, or a part of it could
        neither be inverted nor kept.
    """
    try:
        if content.startswith(b"GIF8"):
            return InvertedImage(_invert_gif(content, maximum_pixels), "image/gif")
        described = png_chunks(content) if content.startswith(_PNG_SIGNATURE) else b""
        file_format, frames = _decode(content, maximum_pixels)
    except InvalidImage:
        raise
    except Exception as error:  # Damaged bytes make Pillow raise errors of almost any type.
        raise InvalidImage(reason_for(content, error)) from error
    output = BytesIO()
    frames[0].save(output, file_format, save_all=len(frames) > 1, append_images=frames[1:])
    made = output.getvalue()
    made = made[:PNG_HEADER_END] + described + made[PNG_HEADER_END:]
    return InvertedImage(made, Image.MIME[file_format])


def _check_size(pixels: int, frames: int, maximum_pixels: int) -> None:
    if pixels > maximum_pixels or frames > _MAXIMUM_FRAMES:
        raise InvalidImage(
            f"too large: {pixels} pixels in {frames} frame(s), "
            f"where {maximum_pixels} in {_MAXIMUM_FRAMES} are allowed"
        )


def _invert_gif(content: bytes, maximum_pixels: int) -> bytes:
    """Invert the colour tables in place, because a GIF has no other colours.

    The frames stay as they are. Pillow would compose them, and reduce their colours again. The
    layout is in https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
    """
    inverted = bytearray(content)
    kept: list[bytearray] = []
    kept_to = 0

    def invert_table(position: int, flags: int) -> int:
        end = position + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        inverted[position:end] = inverted[position:end].translate(_INVERTED)
        return end

    width, height, screen_flags = struct.unpack_from("<2HB", content, 6)
    position, frames = invert_table(13, screen_flags), 0
    while (introducer := content[position : position + 1]) != b";":
        start = position
        if introducer == b",":
            left, top, frame_width, frame_height, flags = struct.unpack_from(
                "<4HB", content, position + 1
            )
            if not (screen_flags | flags) & 0x80:
                raise InvalidImage("a GIF frame without a colour table")
            # Pillow enlarges the canvas to hold every frame.
            width, height = max(width, left + frame_width), max(height, top + frame_height)
            frames += 1
            _check_size(width * height * frames, frames, maximum_pixels)
            position = invert_table(position + 10, flags) + 1
        elif introducer == b"!":
            position += 2
        elif not content[position:].strip(b"\0"):
            break  # Browsers show a GIF without a trailer.
        else:
            raise ValueError("an unknown block")
        while block_size := content[position]:
            position += 1 + block_size
        position += 1
        is_xmp = content.startswith(b"!\xff\x0bXMP Data", start)
        if is_xmp and not xmp_of_inverse(content[start:position]):
            kept.append(inverted[kept_to:start])
            kept_to = position

    # Nothing above read the pixels. A damaged image must be refused, so decode them all.
    source = Image.open(BytesIO(content), formats=["GIF"])
    for frame in range(frames):
        source.seek(frame)
        source.load()
    return b"".join([*kept, inverted[kept_to:position], b";"])


def _decode(content: bytes, maximum_pixels: int) -> tuple[str, list[Image.Image]]:
    """Give the format and all frames, inverted, each with its `encoderinfo`.

    They cannot be streamed, because Pillow's writers read the frames more than once.
    """
    source = Image.open(BytesIO(content), formats=_FORMATS)
    if source.format == "PNG" and content[24] == _DEEP:
        raise InvalidImage("A PNG with 16 bits per sample, of which Pillow would keep 8.")
    frames: list[Image.Image] = []
    pixels = 0
    for _ in ImageSequence.Iterator(source):
        pixels += source.width * source.height
        _check_size(pixels, len(frames) + 1, maximum_pixels)
        source.load()
        frame = _inverted(source)
        transparency = _inverted_transparency(source, content)
        frame.info = {} if transparency is None else {"transparency": transparency}
        frame.encoderinfo = _encoder_options(source, content)
        frames.append(frame)
        if isinstance(source, JpegImageFile):  # In an MPO, others follow.
            return "JPEG", frames
    if len(frames) != getattr(source, "n_frames", 1):
        raise InvalidImage("an animation that lacks frames")
    options = frames[0].encoderinfo
    animated = frames[1:] if options.get("default_image") else frames
    options["duration"] = [frame.encoderinfo.get("duration", 0) for frame in animated]
    return str(source.format), frames


def _inverted(image: Image.Image) -> Image.Image:
    """Invert the pixels of an image or, if it has one, its palette."""
    match image.mode:
        case "P":
            inverted = image.copy()
            inverted.putpalette(bytes(image.getpalette() or ()).translate(_INVERTED))
            return inverted
        case "1" | "L" | "RGB":
            return ImageChops.invert(image)  # faster than a table: a tenth of a JPEG's whole time
        case "LA" | "RGBA":
            tables = [_KEPT if band == "A" else _INVERTED for band in image.getbands()]
            return image.point(b"".join(tables))
        case _:
            # CMYK: Pillow would ignore the profile.
            raise InvalidImage(f"The colours of an image in {image.mode} depend on its profile.")


def _inverted_transparency(source: ImageFile.ImageFile, content: bytes) -> Any:
    """Give the value that marks the same pixels as transparent in the inverted PNG.

    With a palette, it stays the same. Otherwise it is a colour, with samples of the same depth as
    the file's (https://www.w3.org/TR/png-3/#11tRNS).
    """
    transparency, largest = source.info.get("transparency"), (1 << content[24]) - 1
    match transparency:
        case int() | bytes() if source.mode == "P":
            return transparency
        case int():
            return ~transparency & largest
        case tuple():
            return tuple(~sample & largest for sample in transparency)
        case _:
            return None


def _encoder_options(source: ImageFile.ImageFile, content: bytes) -> dict[str, Any]:
    """Give the options with which `Image.save` keeps what a loaded image has besides pixels."""
    file_format = "JPEG" if isinstance(source, JpegImageFile) else str(source.format)
    options = {name: source.info[name] for name in _INFO[file_format] if name in source.info}
    if file_format != "PNG":
        options["exif"] = exif_without_pictures(source.info.get("exif", b""))
        options["xmp"] = xmp_of_inverse(source.info.get("xmp", b""))
    if isinstance(source, JpegImageFile):
        if not all(resolution <= _JFIF_DENSITY for resolution in options.get("dpi", ())):
            del options["dpi"]  # JFIF cannot store it.
        segments = jpeg_segments(source)
        datas = [options["exif"], *(data for _, data in segments)]
        if max(map(len, datas)) > _JPEG_SEGMENT_BYTES:
            raise InvalidImage("EXIF or IPTC data that span several JPEG segments")
        options |= {
            "qtables": [table for _, table in sorted(source.quantization.items())],
            "subsampling": get_sampling(source),
            "extra": b"".join(
                marker + struct.pack(">H", 2 + len(data)) + data for marker, data in segments
            ),
        }
    elif source.format == "PNG":
        if content[24] in {2, 4}:
            options["bits"] = content[24]
    elif source.format == "WEBP":
        if max(source.size) > _WEBP_SIDE_PIXELS:
            raise InvalidImage("a WebP canvas that only an animation can have")
        # Pillow does not say which kind it is. The name of the first chunk with pixels does.
        lossless = re.search(rb"VP8[ L]", content)
        if lossless is not None and lossless[0] == b"VP8L":
            # Here, "quality" is the effort to make the file small. Pillow's 80 takes twice as long.
            options |= {"lossless": True, "quality": 50}
        options["exact"] = True
        options["xmp"] = options["xmp"] or EMPTY_XMP  # for the stamp
    return options
