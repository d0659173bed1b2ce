"""How outputs are written, and what strict readers say of them.

The strict readers object to what pngcheck, webpinfo, gifsicle and jpeginfo object to: a wrong size
or checksum, a part at the wrong place, and bytes behind the end.
"""

import struct
import zlib
from typing import Any

import pytest

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


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
def test_jpeg_is_written_with_the_stated_setting(mode: str, subsampling: str) -> None:
    options: Any = {"quality": 20, "subsampling": subsampling, "progressive": True}
    content = encoded(smooth(mode), "JPEG", **options)
    after: Any = opened(inverted(content))
    stated: Any = opened(encoded(smooth(mode), "JPEG", quality=90))
    assert after.quantization == stated.quantization
    assert {component[1:3] for component in after.layer} == {(1, 1)}
    assert distance([after], inverse(frames(content))) < 8


def test_rare_chunks_of_a_png_are_dropped() -> None:
    rare = [(b"sBIT", b"\5\6\5"), (b"sTER", b"\0"), (b"oFFs", bytes(9)), (b"sPLT", b"x\0\x08")]
    assert inverted(png(8, 2, b"\1\2\3", *rare)) == inverted(png(8, 2, b"\1\2\3"))


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
