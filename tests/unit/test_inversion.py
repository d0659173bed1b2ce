"""The inversion of images that Pillow has written, whole or damaged."""

import random
import re
import struct
import zlib
from contextlib import suppress
from io import BytesIO
from types import NoneType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageCms, ImageFile, ImageSequence, ImageStat
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from invert_image.inversion import InvalidImage, invert

SIZE = (17, 24)
ENOUGH = 1_000_000
ROTATED = Image.Exif()
ROTATED[Tag.Orientation], ROTATED[Tag.Make] = 8, "Kamera"
ICC_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
# What `invert` keeps besides pixels, as Pillow reads it. An orientation is not applied.
KEPT = (
    *("comment", "default_image", "dpi", "duration", "exif", "icc_profile"),
    *("loop", "photoshop", "transparency"),
)


def noise(mode: str = "RGB", seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    """Give noise, of all degrees of transparency in a mode with alpha."""
    source = random.Random(seed)  # noqa: S311
    rgba = Image.frombytes("RGBA", size, source.randbytes(size[0] * size[1] * 4))
    return rgba.convert(mode) if mode in {"LA", "RGBA"} else rgba.convert("RGB").convert(mode)


def smooth(mode: str = "RGB", turns: int = 0) -> Image.Image:
    """Give ramps, which lossy formats hardly change, and sharp edges of alpha."""
    ramp = Image.linear_gradient("L").resize((48, 48))
    bands = Image.new(mode, (1, 1)).getbands()
    image = Image.merge(mode, [ramp.rotate(90 * (turns + n)) for n in range(len(bands))])
    if mode == "RGBA":
        image.putalpha(Image.radial_gradient("L").resize((48, 48)).point([0] * 128 + [255] * 128))
    return image


def encoded(image: Image.Image, file_format: str, **options: Any) -> bytes:
    output = BytesIO()
    image.save(output, file_format, **options)
    return output.getvalue()


def animated(images: list[Image.Image], file_format: str, **options: Any) -> bytes:
    return encoded(images[0], file_format, save_all=True, append_images=images[1:], **options)


def opened(content: bytes) -> Image.Image:
    image = Image.open(BytesIO(content))
    image.load()
    return image


def frames(content: bytes) -> list[Image.Image]:
    """Give all frames; of a multi-picture JPEG the primary picture, as the others are lost."""
    found = ImageSequence.all_frames(image := Image.open(BytesIO(content)))
    return found[:1] if image.format == "MPO" else found


def inverted(content: bytes) -> bytes:
    return invert(content, ENOUGH).content


def inverse(images: list[Image.Image]) -> list[Image.Image]:
    split = (image.convert("RGBA").split() for image in images)
    return [Image.merge("RGBA", [*map(ImageChops.invert, bands[:3]), bands[3]]) for bands in split]


def visible(image: Image.Image) -> Image.Image:
    """Give the pixels without such colours as are fully transparent."""
    image = image.convert("RGBA")
    opacity = image.getchannel("A").point([0, *[255] * 255])
    return Image.composite(image, Image.new("RGBA", image.size), opacity)


def distance(some: list[Image.Image], others: list[Image.Image]) -> float:
    """Give the largest mean difference of two frames' samples of a colour, from 0 to 255."""
    found = []
    for one, other in zip(some, others, strict=True):
        assert one.size == other.size
        difference = ImageChops.difference(visible(one), visible(other))
        assert not difference.getchannel("A").getbbox()
        found.append(max(ImageStat.Stat(difference).mean))
    return max(found)


def png(depth: int, colour_type: int, data: bytes, transparent: bytes = b"") -> bytes:
    """Give a PNG of one row, also of such kinds as Pillow cannot write."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour_type]
    width = len(data) * 8 // (depth * channels)
    chunks = [(b"IHDR", struct.pack(">2I5B", width, 1, depth, colour_type, 0, 0, 0))]
    if transparent:
        chunks.append((b"tRNS", transparent))
    chunks += [(b"IDAT", zlib.compress(b"\0" + data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, chunks))


def chunk(named: tuple[bytes, bytes]) -> bytes:
    name, data = named
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def gif_of_two_sizes(code_sizes: bytes = b"\x08\x08", between: bytes = b"") -> bytes:
    """Give a GIF whose second frame is smaller than its canvas; a code size may be wrong."""
    ends = []
    for size, code_size in zip(((8, 8), (4, 1)), code_sizes, strict=True):
        content = bytearray(encoded(Image.new("P", size), "GIF"))
        table_end = 13 + (3 << (content[10] & 7) + 1)
        content[table_end + 10] = code_size
        ends.append((content[:table_end], content[table_end:-1]))
    (start, first), (_, second) = ends
    return bytes(start + first + between + second + b";")


NOISE = [noise("RGBA", seed) for seed in range(4)]
TURNS = [smooth("RGBA", turns) for turns in range(3)]
TIMING = {"duration": [100, 200, 50], "loop": 3}
EXACT: dict[str, bytes] = {
    **{f"PNG {mode}": encoded(noise(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA")},
    **{f"GIF {mode}": encoded(noise(mode), "GIF") for mode in "1LP"},
    "GIF with tables of its frames": animated([noise("P"), noise("P", 1)], "GIF", loop=7),
    "GIF of two sizes": gif_of_two_sizes(),
    **{
        f"WebP {mode}": encoded(noise(mode), "WEBP", lossless=True, exact=True, exif=ROTATED)
        for mode in ("RGB", "RGBA")
    },
    "WebP lossless animated": animated(TURNS, "WEBP", lossless=True, quality=100, **TIMING),
    "APNG of one bit": animated([noise("1"), noise("1", 1)], "PNG", duration=100),
    "APNG of a default image": animated(NOISE, "PNG", default_image=True, **TIMING),
    "APNG disposal": animated(NOISE, "PNG", disposal=[0, 1, 2, 0], blend=[0, 1, 1, 0]),
    "PNG metadata": encoded(noise(), "PNG", icc_profile=ICC_PROFILE, dpi=(300, 150), exif=ROTATED),
    "PNG transparent index": encoded(noise("P"), "PNG", transparency=3),
    "PNG transparency": encoded(noise("P"), "PNG", transparency=bytes(range(0, 250, 5))),
}
NEARLY: dict[str, bytes] = {
    "JPEG": encoded(
        smooth(),
        "JPEG",
        **{"icc_profile": ICC_PROFILE, "dpi": (300, 150), "exif": ROTATED, "xmp": b"<xmp/>"},
        **{"comment": b"a comment", "quality": 98, "subsampling": "4:4:4"},
    ),
    "JPEG of the longest EXIF": encoded(smooth(), "JPEG", exif=ROTATED.tobytes().ljust(65_533)),
    "JPEG grey": encoded(smooth("L"), "JPEG", quality=95),
    "JPEG progressive": encoded(smooth(), "JPEG", progressive=True, quality=90),
    "MPO": animated([smooth(), smooth(turns=1)], "MPO", quality=95),
    "WebP of the longest side": encoded(Image.new("RGB", (16_383, 1)), "WEBP"),
    "WebP lossy": encoded(smooth("RGBA"), "WEBP", xmp=b"<xm/>", icc_profile=ICC_PROFILE),
    "WebP animated": animated(TURNS, "WEBP", quality=100, **TIMING),
}
SAMPLES = EXACT | NEARLY
EVERY_SAMPLE = pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES.keys())


@EVERY_SAMPLE
def test_format_frames_and_metadata_are_kept(content: bytes) -> None:
    result = invert(content, ENOUGH)
    assert invert(content, ENOUGH) == result  # the same bytes give the same bytes
    before, after = Image.open(BytesIO(content)), Image.open(BytesIO(result.content))
    file_format = "JPEG" if before.format == "MPO" else before.format
    assert (after.format, result.content_type) == (file_format, f"image/{file_format}".lower())
    assert (b"VP8L" in result.content) is (b"VP8L" in content)
    assert file_format != "PNG" or result.content[24] == content[24]
    if isinstance(before, JpegImageFile) and isinstance(after, JpegImageFile):
        assert after.quantization == before.quantization
        assert get_sampling(after) == get_sampling(before)
    for number, _ in enumerate(frames(content)):
        before.seek(number)
        after.seek(number)
        before.load()
        after.load()
        assert after.size == before.size
        assert after.mode == before.mode or before.format == "GIF"
        kept = [{name: each.info.get(name) for name in KEPT} for each in (before, after)]
        assert kept[1] == kept[0]
    assert len(frames(result.content)) == len(frames(content))
    # The limit counts the pixels of all frames.
    total = sum(image.width * image.height for image in frames(content))
    assert invert(content, total) == result
    with pytest.raises(InvalidImage, match="too large"):
        invert(content, total - 1)


@pytest.mark.parametrize("name", SAMPLES)
def test_colours_are_inverted_exactly_or_nearly_if_the_format_is_lossy(name: str) -> None:
    after = distance(frames(inverted(SAMPLES[name])), inverse(frames(SAMPLES[name])))
    assert after < 8 if name in NEARLY else after == 0


@pytest.mark.parametrize(
    ("content", "depth", "key", "expected"),
    [
        (png(1, 0, b"\x0f", b"\0\1"), 1, b"\0\0", [255] * 4 + [0] * 4),
        (png(2, 0, b"\x1b", b"\0\1"), 2, b"\0\2", [255, 170, 85, 0]),
        (png(4, 0, b"\x0f", b"\0\x0f"), 4, b"\0\0", [255, 0]),
        (png(8, 0, b"\1\2", b"\0\2"), 8, b"\0\xfd", [254, 253]),
        (png(8, 2, b"\1\2\3", b"\0\1\0\2\0\3"), 8, b"\0\xfe\0\xfd\0\xfc", [(254, 253, 252)]),
    ],
    ids=["1 bit", "2 bits", "4 bits", "8 bits", "RGB"],
)
def test_transparent_colour_marks_the_same_pixels(
    content: bytes, depth: int, key: bytes, expected: list[Any]
) -> None:
    after = inverted(content)
    position = after.index(b"tRNS")
    assert after[position + 4 : position + 4 + len(key)] == key
    assert after[24] == depth
    assert list(opened(after).get_flattened_data()) == expected


def test_colours_of_transparent_pixels_of_a_webp_are_kept() -> None:
    before, after = opened(SAMPLES["WebP RGBA"]), opened(inverted(SAMPLES["WebP RGBA"]))
    assert after.tobytes() == inverse([before])[0].tobytes()


@pytest.mark.parametrize(
    ("unit", "density", "is_kept"), [(1, 65_535, 1), (1, 0, 0), (2, 30_000, 0)]
)
def test_resolution_is_kept_if_jfif_can_store_it(unit: int, density: int, is_kept: int) -> None:
    content = bytearray(encoded(noise(), "JPEG"))
    content[13:18] = struct.pack(">B2H", unit, 1, density)  # for each inch, or each centimetre
    assert opened(inverted(bytes(content))).info.get("dpi") == ((1, density) if is_kept else None)


IPTC = b"Photoshop 3.0\x008BIM\x04%b" + bytes(4) + (59_970).to_bytes(2, "big")


def jpeg_with_long(*starts: bytes) -> bytes:
    content, marker = encoded(noise(), "JPEG"), b"\xff\xed" if starts[0][0] == 0x50 else b"\xff\xe1"
    segments = [marker + struct.pack(">H", 60_002) + each.ljust(60_000, b"\0") for each in starts]
    return content[:2] + b"\xff\xfe\0\3c" + b"".join(segments) + content[2:]


def gif_without_a_colour_table() -> bytes:
    content = bytearray(encoded(Image.new("P", SIZE), "GIF"))
    size = 3 << (content[10] & 7) + 1
    content[10] = 0
    del content[13 : 13 + size]
    return bytes(content)


def apng_without_the_pixels_of_its_last_frame() -> bytes:
    content = SAMPLES["APNG disposal"]
    position = content.rindex(b"fdAT")
    return content[: position - 4] + chunk((b"unIT", content[position + 4 : -16])) + content[-12:]


def webp_of_a_large_canvas() -> bytes:
    content = SAMPLES["WebP animated"]
    return content[:24] + struct.pack("<I", 16_383)[:3] + content[27:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (jpeg_with_long(*[b"Exif\0\0"] * 2), "EXIF"),
        (jpeg_with_long(*(IPTC % code for code in (b"\x04", b"\x25"))), "IPTC"),
        (gif_without_a_colour_table(), "colour table"),
        (gif_of_two_sizes(between=b"\1\0\0"), "damaged"),
        (gif_of_two_sizes(b"\x0d\x08"), "damaged"),
        (gif_of_two_sizes(b"\x08\x0d"), "damaged"),
        (apng_without_the_pixels_of_its_last_frame(), "lacks frames"),
        (png(16, 0, bytes(2)), "16 bits"),
        (png(16, 2, bytes(6)), "16 bits"),
        (encoded(Image.new("CMYK", SIZE), "JPEG"), "CMYK"),
        (webp_of_a_large_canvas(), "canvas"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_image_that_would_lose_something_else_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidImage, match=reason):
        invert(content, ENOUGH)


WHOLE = {name: SAMPLES[name] for name in ("JPEG", "PNG RGB", "GIF P", "WebP RGB")}
REASONS = {
    "empty": b"",
    "PDF": b"%PDF-1.7",
    "BMP": encoded(noise(), "BMP"),
    "TIFF": encoded(noise(), "TIFF"),
    "DNG": encoded(noise(), "TIFF", tiffinfo={50706: b"\1\4\0\0"}),
    "(DNG)": encoded(noise(), "TIFF", tiffinfo={50706: b"\1\4\0\0"}, big_endian=True),
    "AVIF": encoded(noise(), "AVIF"),
    "HEIC": b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic",
    "video": b"\0\0\0\x14ftypisom\0\0\2\0isommp41",
    "JPEG XL": b"\xff\x0a\x10\x10",
    "SVG": b'<?xml version="1.0"?>\n<!-- of a tool -->\n<svg xmlns="http://www.w3.org/2000/svg">',
    "an SVG": b" <svg/>",
    "text": "<!DOCTYPE html><title>Ein schönes Bild</title>".encode(),
    "unknown": encoded(noise(), "ICO"),
    "GIF image that is damaged": encoded(noise("P"), "GIF")[:13] + b";",
    "JPEG image that is damaged, or of a rare kind (OSError)": SAMPLES["JPEG"][:200]
    + SAMPLES["JPEG"][-2:],
    "PNG image that is damaged": SAMPLES["PNG RGB"].replace(b"IDAT", b"IDAt"),
    "WebP image that is damaged": b"RIFF\x08\0\0\0WEBPVP8 ",
    **{f"{each.split()[0]} image that is cut off": WHOLE[each][:-1] for each in WHOLE},
    "GIF image that is cut off": WHOLE["GIF P"][:-2],
    "JPEG image that is cut off: ": b"\xff\xd8\xff",
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_of_a_refusal_says_what_the_file_is_and_quotes_none_of_it(reason: str) -> None:
    with pytest.raises(InvalidImage, match=re.escape(reason)) as caught:
        invert(REASONS[reason], ENOUGH)
    assert not isinstance(caught.value.__cause__, NoneType | KeyError)  # no other was opened
    assert str(caught.value.__cause__) not in str(caught.value)


def test_gif_without_a_trailer_is_accepted_and_bytes_behind_the_trailer_go() -> None:
    content = EXACT["GIF of two sizes"]
    for end in (b"", b"\0\0", b";more"):
        assert inverted(content[:-1] + end) == inverted(content)


@EVERY_SAMPLE
@pytest.mark.filterwarnings("ignore")
def test_truncated_image_is_refused_unless_its_pixels_are_complete(content: bytes) -> None:
    whole = frames(inverted(content))
    lengths = [len(content) * part // 8 for part in range(8)]
    for length in (*lengths, *(len(content) - cut for cut in (1, 2, 4, 8, 13, 30))):
        with suppress(InvalidImage):
            result = inverted(content[:length])
            # Only bytes that carry no pixels were cut.
            assert length > len(content) / 2
            assert distance(frames(result), whole) == 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of damaged files
@given(
    sample=st.sampled_from(sorted(SAMPLES)),
    edits=st.lists(
        st.tuples(st.integers(0, 2**16), st.integers(0, 255), st.integers(0, 3)), min_size=1
    ),
)
@example(sample="APNG of one bit", edits=[(8, 0, 1)])  # still an animation
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_image_or_invalid(sample: str, edits: list[tuple[int, int, int]]) -> None:
    content = bytearray(SAMPLES[sample])
    for anywhere, value, length in edits:
        place = anywhere % (len(content) + 1)
        content[place : place + length] = bytes([value]) * (1 + length // 2)
    with suppress(InvalidImage):
        inverted = invert(bytes(content), maximum_pixels=100_000)
        with Image.open(BytesIO(inverted.content)) as image:
            image.load()
            # The media type of the format: Pillow has another one for an animated PNG.
            assert Image.MIME[str(image.format)] == inverted.content_type


def test_too_many_frames_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for file_format in ("GIF", "PNG", "WEBP"):
        content = animated([noise("RGB", seed, (4, 4)) for seed in range(5)], file_format)
        monkeypatch.setattr("invert_image.inversion._MAXIMUM_FRAMES", 5)
        invert(content, ENOUGH)
        monkeypatch.setattr("invert_image.inversion._MAXIMUM_FRAMES", 4)
        with pytest.raises(InvalidImage, match="5 frame"):
            invert(content, ENOUGH)


def bomb_png() -> bytes:
    header = (b"IHDR", struct.pack(">2I5B", 50_000, 50_000, 8, 0, 0, 0, 0))
    content = encoded(Image.new("L", (1, 1)), "PNG")
    return content[:8] + chunk(header) + content[33:]


def bomb_gif() -> bytes:
    content = bytearray(encoded(Image.new("P", (1, 1)), "GIF"))
    frame = content.index(b",")
    content[frame + 5 : frame + 9] = struct.pack("<2H", 50_000, 50_000)
    return bytes(content)


@pytest.mark.parametrize("content", [bomb_png(), bomb_gif()], ids=["PNG", "GIF"])
def test_bomb_is_refused_undecoded(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[ImageFile.ImageFile] = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", decoded.append)
    with pytest.raises(InvalidImage, match="too large: 2500000000 pixels"):
        invert(content, 100_000_000)
    assert not decoded


def test_error_of_the_encoder_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OSError("of the encoder")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="of the encoder"):
        invert(SAMPLES["JPEG"], ENOUGH)
