"""Inverts the colours of an image, and keeps the rest: format, alpha, frames and metadata."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image, ImageChops, ImageFile, ImageSequence
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

# `invert` checks its own limit before it decodes. Pillow only warns of some images over its limit.
Image.MAX_IMAGE_PIXELS = None

# And GIF. Pillow opens many more formats, some with other programs (EPS with Ghostscript).
_FORMATS = ("JPEG", "PNG", "WEBP")

# Limits the time that many small frames take.
_MAXIMUM_FRAMES = 2_000

# The maximum of one segment of a JPEG, and of one side of a WebP.
_JPEG_SEGMENT_BYTES = 65_533
_WEBP_SIDE_PIXELS = 16_383

_KEPT = bytes(range(256))
_INVERTED = _KEPT[::-1]

# What Pillow's readers find and its writers accept, with its type. The type matters: the same
# dictionary has the texts of a PNG, as strings, under any names that the file gives them.
_METADATA: dict[str, type | tuple[type, ...]] = {
    "comment": bytes,
    "default_image": bool,
    "dpi": tuple,
    "duration": (int, float),
    "exif": bytes,
    "icc_profile": bytes,
    "loop": int,
    "xmp": bytes,
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

    Kept are the format, alpha, the frames and their timing, EXIF, the ICC profile, the resolution,
    and the quantization and subsampling of a JPEG. The same bytes always give the same result.

    Some is lost, because Pillow cannot read or write it:

    - 16 bits per channel become 8, except in grey without alpha.
    - Of a multi-picture JPEG (MPO), only the primary picture is left.
    - A PNG loses its texts and gamma.
    - Lossy WebP gets Pillow's default quality.

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
        The format is none of these, or the image is damaged or too large, has no inverse, or
        cannot be written by Pillow, such as an animation in 16-bit grey.
    """
    try:
        if content.startswith(b"GIF8"):
            return InvertedImage(_invert_gif(content, maximum_pixels), "image/gif")
        file_format, frames = _decode(content, maximum_pixels)
    except InvalidImage:
        raise
    except Exception as error:  # Damaged bytes make Pillow raise errors of almost any type.
        reason = type(error).__name__  # The message could quote the bytes.
        raise InvalidImage(f"not a readable image of a supported format ({reason})") from error
    output = BytesIO()
    with _encoder_buffer(frames[0]):
        frames[0].save(output, file_format, save_all=len(frames) > 1, append_images=frames[1:])
    return InvertedImage(output.getvalue(), Image.MIME[file_format])


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

    def invert_table(position: int, flags: int) -> int:
        end = position + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        inverted[position:end] = inverted[position:end].translate(_INVERTED)
        return end

    width, height, screen_flags = struct.unpack_from("<2HB", content, 6)
    position, frames = invert_table(13, screen_flags), 0
    while (introducer := content[position : position + 1]) != b";":
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
        else:
            raise InvalidImage("a GIF that is truncated or damaged")
        while block_size := content[position]:
            position += 1 + block_size
        position += 1

    # Nothing above read the pixels. A damaged image must be refused, so decode them all.
    source = Image.open(BytesIO(content), formats=["GIF"])
    for frame in range(frames):
        source.seek(frame)
        source.load()
    return bytes(inverted)


def _decode(content: bytes, maximum_pixels: int) -> tuple[str, list[Image.Image]]:
    """Give the format and all frames, inverted, each with its `encoderinfo`.

    They cannot be streamed, because Pillow's writers read the frames more than once.
    """
    source = Image.open(BytesIO(content), formats=_FORMATS)
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
        case "CMYK":
            # Black is all K. To invert the four inks would make it all C, M and Y, which is black
            # again. So this inverts the colours that one sees; the result has no K. Adobe's JPEGs
            # store CMYK inverted, but Pillow's reader and writer both correct that.
            return ImageChops.invert(image.convert("RGB")).convert("CMYK")
        case "I;16":
            return image.point(lambda value: value * -1 + 65535)
        case _:
            raise InvalidImage(f"pixels of mode {image.mode} have no inverse")


def _inverted_transparency(source: ImageFile.ImageFile, content: bytes) -> Any:
    """Give the value that marks the same pixels as transparent in the inverted PNG.

    With a palette, it stays the same. Otherwise it is a colour, with samples of the same depth as
    the file's (https://www.w3.org/TR/png-3/#11tRNS), except that RGB of 16 bits is written with 8.
    """
    transparency, depth = source.info.get("transparency"), content[24]

    def inverted(sample: int) -> int:
        return (~sample & (1 << depth) - 1) >> (depth - 8 if source.mode == "RGB" else 0)

    match transparency:
        case int() | bytes() if source.mode == "P":
            return transparency
        case int():
            return inverted(transparency)
        case tuple():
            return tuple(map(inverted, transparency))
        case _:
            return None


def _encoder_options(source: ImageFile.ImageFile, content: bytes) -> dict[str, Any]:
    """Give the options with which `Image.save` keeps what a loaded image has besides pixels."""
    options = {
        name: source.info[name]
        for name, kind in _METADATA.items()
        if isinstance(source.info.get(name), kind)
    }
    if not all(0 < resolution < 1 << 16 for resolution in options.get("dpi", ())):
        del options["dpi"]  # Not every format can store it, or it makes no sense.
    if isinstance(source, JpegImageFile):
        if len(options.get("exif", b"")) > _JPEG_SEGMENT_BYTES:
            raise InvalidImage("EXIF data that spans several JPEG segments")
        tables = [table for _, table in sorted(source.quantization.items())]
        options |= {
            # Pillow writes CMYK, even if it was YCCK: no ink may get the table for chroma.
            "qtables": tables[:1] if source.mode == "CMYK" else tables,
            "subsampling": get_sampling(source),
            "progressive": "progressive" in source.info,
        }
    elif source.format == "PNG":
        if source.mode == "I;16" and getattr(source, "is_animated", False):
            raise InvalidImage("an animation in 16-bit grey")  # Pillow would merge the frames.
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
    return options


@contextmanager
def _encoder_buffer(image: Image.Image) -> Iterator[None]:
    """Give Pillow a buffer for a whole progressive JPEG, which it must encode in one step.

    Pillow's has two bytes for each pixel. Noise with the finest quantization tables needs four, see
    https://github.com/python-pillow/Pillow/issues/148.
    """
    default = ImageFile.MAXBLOCK
    if image.encoderinfo.get("progressive"):
        ImageFile.MAXBLOCK = max(default, 8 * image.width * image.height)
    try:
        yield
    finally:
        ImageFile.MAXBLOCK = default
