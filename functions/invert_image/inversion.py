"""Invert the colours of an image and leave the rest of it: format, alpha, frames, metadata."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from PIL import Image, ImageChops, ImageFile, ImageSequence
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile, get_sampling
from PIL.TiffImagePlugin import TiffImageFile

# `invert` checks a limit of its own before it decodes; Pillow's is in part a mere warning.
Image.MAX_IMAGE_PIXELS = None

# Beside GIF. Pillow opens far more, some of it with other programs (EPS with Ghostscript).
_FORMATS = ("BMP", "JPEG", "PNG", "TIFF", "WEBP")

# Bounds the time for very many, very small frames: 2,000 pages of a TIFF take some 3 seconds.
_MAXIMUM_FRAMES = 2_000

# What one segment of a JPEG can hold, and one side of a WebP.
_JPEG_SEGMENT_BYTES = 65_533
_WEBP_SIDE_PIXELS = 16_383

_KEPT = bytes(range(256))
_INVERTED = _KEPT[::-1]

# What Pillow's readers give for its writers to take. The types matter: in the same dictionary are
# the texts of a PNG, as strings, under whatever names the file gives them.
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

_TIFF_TEXTS = (Tag.ImageDescription, Tag.Make, Tag.Model, Tag.DateTime, Tag.Artist, Tag.Copyright)


class InvalidImage(ValueError):
    """The bytes are no image that can be inverted; trying again cannot help."""


@dataclass(frozen=True)
class InvertedImage:
    """An image file and the media type of its format."""

    content: bytes
    content_type: str


def invert(content: bytes, maximum_pixels: int) -> InvertedImage:
    """Invert the colours of an image file.

    Format, alpha, frames and their timing stay; so do EXIF, ICC profile and resolution, and what
    makes a JPEG's size and quality. The same bytes always give the same result.

    Some is lost where Pillow cannot read or write it: 16 bits per channel become 8, but for grey
    without alpha; of a multi-picture JPEG (MPO), only the primary picture is left; a PNG loses its
    texts and gamma, a TIFF its XMP, EXIF and GPS directories, and its orientation is applied to
    its pixels. Lossy WebP, and JPEG within TIFF, get Pillow's default quality.

    Parameters
    ----------
    content
        The bytes of a BMP, GIF, JPEG, PNG (or APNG), TIFF or WebP file.
    maximum_pixels
        The most pixels (width times height) that all frames together may have. Memory use was
        measured to be up to 16 bytes for each of them, in lossless WebP up to 45.

    Returns
    -------
    InvertedImage
        The inverted image, in the format of `content`.

    Raises
    ------
    InvalidImage
        If `content` is in no such format, damaged, too large, or of a kind without an inverse or
        that Pillow cannot write: among others floating point, 32-bit and CIELAB pixels, BMP with
        alpha, and animations in 16-bit grey.
    """
    try:
        if content.startswith(b"GIF8"):
            return InvertedImage(_invert_gif(content, maximum_pixels), "image/gif")
        file_format, frames = _decode(content, maximum_pixels)
    except InvalidImage:
        raise
    except Exception as error:  # Pillow raises almost anything at hostile bytes.
        reason = type(error).__name__  # The message may quote the bytes.
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
    """Invert the colour tables in place: a GIF has its colours nowhere else.

    So the frames stay as they are; Pillow would compose them and reduce their colours anew. The
    layout is that of https://www.w3.org/Graphics/GIF/spec-gif89a.txt.
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

    # All this did without the pixels, but a damaged image must not pass for an inverted one.
    source = Image.open(BytesIO(content), formats=["GIF"])
    for frame in range(frames):
        source.seek(frame)
        source.load()
    return bytes(inverted)


def _decode(content: bytes, maximum_pixels: int) -> tuple[str, list[Image.Image]]:
    """Read all frames; give the format and the frames inverted, each with its `encoderinfo`.

    Pillow's writers go through the frames more than once, so that these cannot be streamed.
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
        if isinstance(source, JpegImageFile):  # Possibly an MPO, of which only this is taken.
            return "JPEG", frames
    if len(frames) != getattr(source, "n_frames", 1):
        raise InvalidImage("an animation that lacks frames")
    options = frames[0].encoderinfo
    animated = frames[1:] if options.get("default_image") else frames
    options["duration"] = [frame.encoderinfo.get("duration", 0) for frame in animated]
    return str(source.format), frames


def _inverted(image: Image.Image) -> Image.Image:
    """Give the image inverted: its pixels or, if it has one, its palette."""
    match image.mode:
        case "P" | "PA":
            inverted = image.copy()
            inverted.putpalette(bytes(image.getpalette() or ()).translate(_INVERTED))
            return inverted
        case "1" | "L" | "LA" | "RGB" | "RGBA":
            tables = [_KEPT if band == "A" else _INVERTED for band in image.getbands()]
            return image.point(b"".join(tables))
        case "CMYK":
            # Inverting the four inks would turn black, which is all K, into black made of C, M and
            # Y. So invert what they look like; the result has no K. Pillow has put Adobe's JPEGs,
            # which store CMYK inverted, right on reading, and writes them so again.
            return ImageChops.invert(image.convert("RGB")).convert("CMYK")
        case "I;16" | "I;16B":
            # One byte order for all, as pages of both cannot be in one TIFF; Pillow goes by "I".
            native = image.convert("I").convert("I;16") if image.mode == "I;16B" else image
            if (
                isinstance(image, TiffImageFile)
                and image.tag_v2[Tag.PhotometricInterpretation] == 0
            ):
                return native.copy()  # White is zero; written as "black is zero", it is inverted.
            return native.point(lambda value: value * -1 + 65535)
        case _:
            raise InvalidImage(f"pixels of mode {image.mode} have no inverse")


def _inverted_transparency(source: ImageFile.ImageFile, content: bytes) -> Any:
    """Give what marks, in the inverted PNG, the same pixels as transparent.

    For a palette that is the same as before. Otherwise it is a colour, whose samples are as deep
    as in the file (https://www.w3.org/TR/png-3/#11tRNS); only RGB of 16 bits is written with 8.
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
    """Say how `Image.save` keeps what `source`, just loaded, has beside its pixels."""
    options = {
        name: source.info[name]
        for name, kind in _METADATA.items()
        if isinstance(source.info.get(name), kind)
    }
    if not all(0 < resolution < 1 << 16 for resolution in options.get("dpi", ())):
        del options["dpi"]  # It does not fit in every format, or makes no sense.
    if isinstance(source, JpegImageFile):
        if len(options.get("exif", b"")) > _JPEG_SEGMENT_BYTES:
            raise InvalidImage("EXIF data that spans several JPEG segments")
        tables = [table for _, table in sorted(source.quantization.items())]
        options |= {
            # Pillow writes CMYK, even if it was YCCK: no ink must get the table for chroma.
            "qtables": tables[:1] if source.mode == "CMYK" else tables,
            "subsampling": get_sampling(source),
            "progressive": "progressive" in source.info,
        }
    elif isinstance(source, TiffImageFile):
        tags = source.tag_v2
        if Tag.XResolution not in tags:
            options.pop("dpi", None)  # Pillow has made it up.
        options |= {
            "compression": _tiff_compression(source),
            "tiffinfo": {tag: tags[tag] for tag in _TIFF_TEXTS if isinstance(tags.get(tag), str)},
        }
        source.info = {}  # Pillow would leave it to the next page.
    elif source.format == "PNG":
        if source.mode == "I;16" and getattr(source, "is_animated", False):
            raise InvalidImage("an animation in 16-bit grey")  # Pillow would merge its frames.
        if content[24] in {2, 4}:
            options["bits"] = content[24]
    elif source.format == "BMP":
        options.setdefault("dpi", (0, 0))  # That is none; Pillow's default is 96.
    elif source.format == "WEBP":
        if max(source.size) > _WEBP_SIDE_PIXELS:
            raise InvalidImage("a WebP canvas that only an animation can have")
        # Pillow does not tell, but the name of the first chunk with pixels does.
        lossless = re.search(rb"VP8[ L]", content)
        if lossless is not None and lossless[0] == b"VP8L":
            # Here "quality" is the effort to make the file small: Pillow's 80 takes twice as long.
            options |= {"lossless": True, "quality": 50}
        options["exact"] = True
    return options


def _tiff_compression(page: TiffImageFile) -> str:
    """Give the compression of a page or, if Pillow cannot write that, one without loss."""
    writable = {"raw", "packbits", "tiff_lzw", "tiff_adobe_deflate", "lzma", "zstd"}
    if page.mode == "1":
        writable |= {"group3", "group4", "tiff_ccitt"}
    elif page.mode not in {"P", "PA", "I;16", "I;16B"}:
        writable |= {"jpeg"}
    compression: str = page.info["compression"]
    return compression if compression in writable else "tiff_adobe_deflate"


@contextmanager
def _encoder_buffer(image: Image.Image) -> Iterator[None]:
    """Let Pillow have enough memory for a progressive JPEG, which it must encode at one go.

    It takes two bytes for each pixel, where noise with the finest quantization tables needs four:
    https://github.com/python-pillow/Pillow/issues/148.
    """
    default = ImageFile.MAXBLOCK
    if image.encoderinfo.get("progressive"):
        ImageFile.MAXBLOCK = max(default, 8 * image.width * image.height)
    try:
        yield
    finally:
        ImageFile.MAXBLOCK = default
