"""What an image file has besides its pixels: what is kept of it, and where the stamp is.

The strict readers object to what pngcheck, webpinfo, gifsicle and jpeginfo object to: a wrong size
or checksum, a part at the wrong place, and bytes behind the end.
"""

import struct
import zlib

import pytest
from PIL.ExifTags import IFD
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngInfo

from invert_image.inversion import InvalidImage
from invert_image.stamp import stamp_image
from tests.unit.test_inversion import (
    EVERY_SAMPLE,
    KEPT,
    animated,
    chunk,
    encoded,
    frames,
    inverted,
    noise,
    opened,
)

PICTURE = encoded(noise(), "JPEG")
TRUE = b'<x GPano="http://ns.google.com/photos/1.0/panorama/"/>'
OUTDATED = [
    b'<x xmpGImg="http://ns.adobe.com/xap/1.0/g/img/"/>',
    b'<x xmpNote:HasExtendedXMP="0"/>',
    b'<x GCamera="http://ns.google.com/photos/1.0/camera/"/>',
    b'<x hdrgm="http://ns.adobe.com/hdr-gain-map/1.0/"/>',
    b'<x HDRGainMap="http://ns.apple.com/HDRGainMap/1.0/"/>',
    b'<x dcterms:provenance="self#jumbf=c2pa"/>',
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_no_thumbnail_is_left_and_the_rest_of_exif_stays(file_format: str, order: str) -> None:
    size, orientation = len(PICTURE), 8 if order == "<" else 8 << 16  # two bytes, on the left
    start = struct.pack(f"{order}2HI", 0x4949 if order == "<" else 0x4D4D, 42, 8)
    first = (*(2, Tag.Orientation, 3, 1, orientation), *(Tag.MakerNote, 7, size, 68 + size))
    second = (*(2, Tag.JpegIFOffset, 4, 1, 68), *(Tag.JpegIFByteCount, 4, 1, size))
    first_directory, second_directory = (
        struct.pack(f"{order}3H2I2H2I", *entries) for entries in (first, second)
    )
    rest = bytes(4) + second_directory + bytes(4)
    exif = start + first_directory + struct.pack(f"{order}I", 38) + rest[4:] + PICTURE * 2
    content = encoded(noise(), file_format, exif=b"Exif\0\0" + exif)
    assert Tag.JpegIFOffset in opened(content).getexif().get_ifd(IFD.IFD1)
    image = opened(inverted(content))
    assert image.getexif()[Tag.Orientation] == 8
    after = image.info["exif"].removeprefix(b"Exif\0\0")
    assert after == start + first_directory + rest + bytes(2 * size)


@pytest.mark.parametrize("exif", [b"no EXIF", b"II*\0\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff"])
def test_damaged_exif_is_kept_without_pictures(exif: bytes) -> None:
    content = encoded(noise(), "PNG", exif=exif + PICTURE[:-2])
    assert chunk((b"eXIf", exif + bytes(len(PICTURE) - 2))) in inverted(content)


def test_iptc_and_each_comment_of_a_jpeg_are_kept_and_other_resources_are_not() -> None:
    iptc, preview = b"\x1c\x02\x78\0\x07Caption\x1c\x02\xca\0\x05", b"\xff\xd8\xff\xff\xd9"
    kept = {0x0404: iptc + bytes(5), 0x0425: b"d" * 16, 0x040A: b"\1", 0x040B: b"url"}
    data = b"Photoshop 3.0\0"
    for code, value in (kept | {0x0404: iptc + preview, 0x040C: PICTURE}).items():
        data += b"8BIM" + struct.pack(">H2xI", code, len(value)) + value + bytes(len(value) % 2)
    content = PICTURE[:2]
    for marker, value in ((0xFE, b"one"), (0xED, data), (0xFE, b"two")):
        content += struct.pack(">2BH", 0xFF, marker, 2 + len(value)) + value
    after = opened(inverted(content + PICTURE[2:]))
    assert isinstance(after, JpegImageFile)
    assert after.info["photoshop"] == kept
    assert [each for name, each in after.applist if name == "COM"] == [b"one", b"two"]


@pytest.mark.parametrize("xmp", [TRUE, *OUTDATED])
def test_xmp_is_kept_unless_it_describes_what_is_no_longer_there(xmp: bytes) -> None:
    text, gif = PngInfo(), encoded(noise("P"), "GIF")
    text.add_itxt("XML:com.adobe.xmp", xmp.decode())
    start, end = b"!\xff\x0bXMP DataXMP", b"\1" + bytes(range(255, -1, -1)) + b"\0"
    others = b"!\xfe\5jumbf\0" + start + b"<x/>" + end
    for content in (
        *(encoded(noise(), file_format, xmp=xmp) for file_format in ("JPEG", "WEBP")),
        encoded(noise(), "PNG", pnginfo=text),
        gif[:-1] + others + start + xmp + end + b";",
    ):
        assert xmp in content
        assert (xmp in inverted(content)) is (xmp == TRUE)
        assert (others in inverted(content)) is (others in content)


def test_chunks_of_a_png_are_kept_if_they_are_true_of_the_inverse() -> None:
    content = animated([noise("P"), noise("P", 1)], "PNG", duration=100)
    names = {*KEPT, "disposal"} - {"default_image"}  # of Pillow's; with the last one it fails
    kept = [
        *((b"tEXt", name.encode() + b"\0text") for name in sorted(names)),
        *((b"gAMA", bytes(3) + b"1"), (b"cHRM", bytes(32)), (b"pHYs", bytes(9)), (b"sRGB", b"\0")),
        *(
            (b"cICP", bytes(4)),
            (b"tEXt", b"Author\0jumbf"),
            (b"zTXt", b"a\0\0" + zlib.compress(b"b")),
        ),
    ]
    others = [
        *((b"bKGD", bytes(6)), (b"tIME", bytes(7)), (b"caBX", b"signed"), (b"prVt", b"private")),
        (b"tEXt", b"Raw profile type exif\0" + PICTURE),
        (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + OUTDATED[0]),
        (b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(OUTDATED[0])),
    ]
    after = inverted(content[:33] + b"".join(map(chunk, kept + others)) + content[33:])
    assert after == inverted(content)[:33] + b"".join(map(chunk, kept)) + inverted(content)[33:]
    for damaged in (after.replace(b"Author", b"Editor"), after[:-13] + b"!" + after[-12:]):
        with pytest.raises(InvalidImage, match="PNG image that is damaged"):
            inverted(damaged)


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
    known = [b"VP8X", b"ICCP", b"ANIM", b"ANMF", b"ALPH", b"VP8 ", b"VP8L", b"EXIF", b"XMP "]
    assert names == sorted(names, key=known.index)
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
    assert content[20:22] == b"\xff\xe1" or b"Exif\0" not in content  # EXIF follows JFIF


READERS = {b"\x89PN": read_png, b"RIF": read_webp, b"GIF": read_gif, b"\xff\xd8\xff": read_jpeg}


@EVERY_SAMPLE
def test_stamped_image_is_valid_for_strict_readers_and_the_same_image(content: bytes) -> None:
    made = inverted(content)
    for stamp in (STAMP, LONGEST):
        stamped = stamp_image(made, stamp)
        read_strictly(stamped)
        assert (stamp[:255] in stamped, stamp_image(made, stamp + b"0") == stamped) == (True, False)
        assert 4 <= len(stamped) - len(made) - len(stamp) <= 20
        for before, after in zip(frames(made), frames(stamped), strict=True):
            assert after.tobytes() == before.tobytes()
            for name in {*KEPT} - {"comment"}:
                assert after.info.get(name) == before.info.get(name)
            assert after.info.get("comment", stamp) == before.info.get("comment", stamp)
            added = after.info.get("xmp", b"").removeprefix(before.info.get("xmp", b""))
            assert added == (b"<?inorder " + stamp + b"?>" if made.startswith(b"RIFF") else b"")
