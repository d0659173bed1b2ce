"""Image files from the field, and what strict readers say of the outputs.

The strict readers object to what pngcheck, webpinfo, gifsicle and jpeginfo object to: a wrong size
or checksum, a part at the wrong place, and bytes behind the end.
"""

import struct
import zlib
from pathlib import Path

import pytest
from PIL import ImageOps
from PIL.JpegImagePlugin import JpegImageFile

from invert_image.inversion import InvalidImage
from invert_image.stamp import stamp_image
from tests.unit.test_inversion import (
    EVERY_SAMPLE,
    ICC_PROFILE,
    distance,
    encoded,
    frames,
    inverse,
    inverted,
    opened,
    png,
    smooth,
)

IMAGES = Path(__file__).parent / "images"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("apng-dispose-previous-blend-over.png", "animated PNG"),
        ("apng-rgb-dispose-background.png", "animated PNG"),
        ("png-index-beyond-the-palette.png", "beyond the palette"),
        ("canon-raw-cr3.cr3", "The file is a camera's raw file."),
        ("web-page-with-inline-svg.jpg", "The file is text."),
    ],
)
def test_file_from_the_field_is_refused(name: str, reason: str) -> None:
    with pytest.raises(InvalidImage, match=reason):
        inverted((IMAGES / name).read_bytes())


@pytest.mark.parametrize(
    "name",
    [
        "png-8-bit-indexed-with-16-colours.png",
        "png-orientation-in-raw-profile-exif.png",
        "png-with-sbit-splt-ster-offs.png",
    ],
)
def test_png_from_the_field_is_inverted_and_has_no_metadata(name: str) -> None:
    content = (IMAGES / name).read_bytes()
    after = inverted(content)
    read_strictly(after)
    assert distance(frames(after), inverse([ImageOps.exif_transpose(opened(content))])) == 0
    for chunk_name in (b"zTXt", b"sBIT", b"sPLT", b"sTER", b"oFFs"):
        assert chunk_name not in after


JPEGS = {
    name: (IMAGES / name).read_bytes()
    for name in ("jpeg-422-as-2x2-1x2-1x2.jpg", "jpeg-fine-luminance-table-in-slot-1.jpg")
} | {
    f"{mode} {subsampling}": encoded(
        smooth(mode), "JPEG", quality=20, subsampling=subsampling, progressive=True
    )
    for mode in ("L", "RGB")
    for subsampling in ("4:4:4", "4:2:0")
}


@pytest.mark.parametrize("name", JPEGS)
def test_jpeg_is_written_with_the_stated_setting(name: str) -> None:
    after = opened(inverted(JPEGS[name]))
    stated = opened(encoded(smooth(after.mode), "JPEG", quality=90))
    assert isinstance(after, JpegImageFile)
    assert isinstance(stated, JpegImageFile)
    assert after.quantization == stated.quantization
    assert {component[1:3] for component in after.layer} == {(1, 1)}
    assert distance([after], inverse(frames(JPEGS[name]))) < 8


@pytest.mark.parametrize("name", [b"zTXt", b"iTXt"])
@pytest.mark.parametrize("size", [2**20 + 1, 2**24 + 1])  # beyond the limits of Pillow
def test_long_text_in_a_png_is_dropped_without_refusal(name: bytes, size: int) -> None:
    start = b"mxGraphModel\0\0" if name == b"zTXt" else b"mxGraphModel\0\1\0\0\0"
    content = png(8, 0, b"\1", (name, start + zlib.compress(b"x" * size, 1)))
    assert inverted(content) == inverted(png(8, 0, b"\1"))


STAMP = b"0055AED6DCD90281E5#3HL4kqtJvjVBH40Nrjfkd-_."
LONGEST = b"0" * 1100  # a version's ID has up to 1,024 bytes


def read_strictly(content: bytes) -> None:
    """Walk through the whole file. Anything wrong is an AssertionError or a struct.error."""
    READERS[content[:3]](content)


def read_png(content: bytes) -> None:
    position, names = 8, list[bytes]()
    while position < len(content):
        length, name = struct.unpack_from(">I4s", content, position)
        end = position + 8 + length
        assert struct.unpack_from(">I", content, end) == (zlib.crc32(content[position + 4 : end]),)
        position, names = end + 4, [*names, name]
    assert (names[0], names[-1], names.count(b"IEND")) == (b"IHDR", b"IEND", 1)
    assert b"tEXt" not in names[names.index(b"IDAT") :]  # where some readers stop


def read_webp(content: bytes) -> None:
    assert struct.unpack_from("<I", content, 4) == (len(content) - 8,)
    position, names = 12, list[bytes]()
    while position < len(content):
        name, length = struct.unpack_from("<4sI", content, position)
        position, names = position + 8 + length + length % 2, [*names, name]
    assert position == len(content)
    order = [b"VP8X", b"ICCP", b"ANIM", b"ANMF", b"ALPH", b"VP8 ", b"VP8L", b"EXIF", b"XMP "]
    assert names == sorted(names, key=order.index)
    flags = {0x02: b"ANIM", 0x04: b"XMP ", 0x08: b"EXIF", 0x20: b"ICCP"}
    assert content[20] & ~0x10 == sum(flag for flag, name in flags.items() if name in names)


def read_gif(content: bytes) -> None:
    def table(flags: int) -> int:
        return 3 << (flags & 7) + 1 if flags & 0x80 else 0

    position = 13 + table(content[10])
    while (block := content[position]) != 0x3B:
        assert block == 0x2C or (block == 0x21 and content.startswith(b"GIF89a"))
        position += 2 if block == 0x21 else 11 + table(content[position + 9])
        while size := content[position]:
            position += 1 + size
        position += 1
    assert position == len(content) - 1


def read_jpeg(content: bytes) -> None:
    assert (content[-2:], content.count(b"\xff\xd9")) == (b"\xff\xd9", 1)
    assert content[2:4] + content[6:11] == b"\xff\xe0JFIF\0"  # is the first segment
    position = 2
    while content[position + 1] != 0xDA:
        assert content[position] == 0xFF
        position += 2 + int.from_bytes(content[position + 2 : position + 4], "big")


READERS = {b"\x89PN": read_png, b"RIF": read_webp, b"GIF": read_gif, b"\xff\xd8\xff": read_jpeg}


def check_stamps(content: bytes) -> None:
    output = inverted(content)
    for stamp in (STAMP, LONGEST):
        stamped = stamp_image(output, stamp)
        read_strictly(stamped)
        assert stamp[:255] in stamped
        assert stamp_image(output, stamp + b"0") != stamped
        assert 4 <= len(stamped) - len(output) - len(stamp) <= 20
        for before, after in zip(frames(output), frames(stamped), strict=True):
            assert after.tobytes() == before.tobytes()
            for name in ("duration", "icc_profile", "loop", "transparency"):
                assert after.info.get(name) == before.info.get(name)
            assert after.info.get("comment", stamp) == stamp
            xmp = before.info.get("xmp", b"") + b"<?inorder " + stamp + b"?>"
            assert after.info.get("xmp", xmp).rstrip() == xmp


@EVERY_SAMPLE
def test_stamped_image_is_valid_for_strict_readers(content: bytes) -> None:
    check_stamps(content)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_stamped_image_with_a_profile_is_valid_for_strict_readers(file_format: str) -> None:
    for size in (len(ICC_PROFILE), 100_001):
        profile = ICC_PROFILE.ljust(size, b"\0")
        check_stamps(encoded(smooth(), file_format, icc_profile=profile))
