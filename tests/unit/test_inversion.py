"""The inversion of images that Pillow has written, whole or damaged."""

import random
import re
import resource
import struct
import zlib
from contextlib import suppress
from io import BytesIO
from types import NoneType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageCms, ImageOps, ImageSequence, ImageStat
from PIL.ExifTags import Base as Tag
from PIL.PngImagePlugin import PngInfo

from invert_image.inversion import InvalidImage, invert
from tests.support.replacing import replaced

SIZE = (17, 24)
ENOUGH = 1_000_000
ICC_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def noise(mode: str = "RGB", seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    """Give noise, of all degrees of transparency in a mode with alpha."""
    source = random.Random(seed)  # noqa: S311
    rgba = Image.frombytes("RGBA", size, source.randbytes(size[0] * size[1] * 4))
    return rgba.convert(mode) if mode in {"LA", "RGBA"} else rgba.convert("RGB").convert(mode)


def colourful(seed: int) -> Image.Image:
    """Give noise in most colours of a palette of its own."""
    source = random.Random(seed)  # noqa: S311
    image = Image.frombytes("P", SIZE, source.randbytes(SIZE[0] * SIZE[1]))
    image.putpalette(source.randbytes(768))
    return image


def holed(number: int) -> Image.Image:
    """Give a grey ramp with a hole, which is at another place in another frame."""
    image = Image.linear_gradient("L").resize((48, 48)).convert("RGBA")
    image.paste((0, 0, 0, 0), (8 * number, 0, 8 * number + 8, 48))
    return image


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
    """Give all frames; of a multi-picture JPEG the first picture, as the others are dropped."""
    every = ImageSequence.all_frames(image := Image.open(BytesIO(content)))
    return every[:1] if image.format == "MPO" else every


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
    distances = []
    for one, other in zip(some, others, strict=True):
        assert one.size == other.size
        difference = ImageChops.difference(visible(one), visible(other))
        assert not difference.getchannel("A").getbbox()
        distances.append(max(ImageStat.Stat(difference).mean))
    return max(distances)


def png(depth: int, colour_type: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """Give a PNG of one row, also of such kinds as Pillow cannot write."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour_type]
    width = len(data) * 8 // (depth * channels)
    header = (b"IHDR", struct.pack(">2I5B", width, 1, depth, colour_type, 0, 0, 0))
    chunks = [header, *more, (b"IDAT", zlib.compress(b"\0" + data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(chunk, chunks))


def chunk(named: tuple[bytes, bytes]) -> bytes:
    name, data = named
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def samples_of(image: Image.Image) -> list[Any]:
    return list(image.get_flattened_data())


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[Tag.Orientation], exif[Tag.Make] = orientation, "Kamera"
    return exif


TURNS = [smooth("RGBA", turns) for turns in range(3)]
TIMING = {"duration": [100, 200, 50], "loop": 3}
EXACT: dict[str, bytes] = {
    **{f"PNG {mode}": encoded(noise(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGB", "RGBA")},
    **{f"PNG {bits}": encoded(noise("L"), "PNG", bits=bits) for bits in (2, 4)},
    "PNG transparent index": encoded(noise("P"), "PNG", transparency=3),
    "PNG transparency": encoded(noise("P"), "PNG", transparency=bytes(range(0, 250, 5))),
    **{f"GIF {mode}": encoded(noise(mode), "GIF") for mode in "1LP"},
    "GIF transparent index": encoded(noise("P"), "GIF", transparency=3),
    "GIF transparent grey": encoded(noise("L"), "GIF", transparency=noise("L").getpixel((0, 0))),
    "GIF with tables of its frames": animated([noise("P"), noise("P", 1)], "GIF", loop=7),
    "GIF of many colours": animated([colourful(0), colourful(1)], "GIF", transparency=3),
    "GIF animated": animated(TURNS, "GIF", **TIMING),
    "GIF restored": animated(TURNS, "GIF", **TIMING, disposal=3),
    "GIF cleared": animated([holed(0), holed(1), holed(2)], "GIF", duration=70, disposal=2),
    **{
        f"WebP {mode}": encoded(noise(mode), "WEBP", lossless=True, exact=True)
        for mode in ("RGB", "RGBA")
    },
    "WebP lossless animated": animated(TURNS, "WEBP", lossless=True, quality=100, **TIMING),
}
NEARLY: dict[str, bytes] = {
    "JPEG": encoded(smooth(), "JPEG"),
    "JPEG grey": encoded(smooth("L"), "JPEG", quality=95),
    "JPEG progressive": encoded(smooth(), "JPEG", progressive=True, quality=90),
    "MPO": animated([smooth(), smooth(turns=1)], "MPO", quality=95),
    "WebP of the longest side": encoded(Image.new("RGB", (16_383, 1)), "WEBP"),
    "WebP lossy": encoded(smooth("RGBA"), "WEBP"),
    "WebP animated": animated(TURNS, "WEBP", quality=100, **TIMING),
}
SAMPLES = EXACT | NEARLY
EVERY_SAMPLE = pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES.keys())


@EVERY_SAMPLE
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_format_frames_and_timing_are_kept(content: bytes) -> None:
    result = invert(content, ENOUGH)
    assert invert(content, ENOUGH) == result  # the same bytes give the same bytes
    before, after = Image.open(BytesIO(content)), Image.open(BytesIO(result.content))
    file_format = "JPEG" if before.format == "MPO" else before.format
    assert (after.format, result.content_type) == (file_format, f"image/{file_format}".lower())
    assert (b"VP8L" in result.content) is (b"VP8L" in content)
    assert len(frames(result.content)) == len(frames(content))
    assert after.info.get("loop") == before.info.get("loop")
    for number, _ in enumerate(frames(content)):
        before.seek(number)
        after.seek(number)
        before.load()
        after.load()
        assert after.size == before.size
        assert after.info.get("duration", 0) == before.info.get("duration", 0)
    # The limit counts the pixels of all frames.
    total = sum(image.width * image.height for image in frames(content))
    assert invert(content, total) == result
    with pytest.raises(InvalidImage, match="too large"):
        invert(content, total - 1)


@pytest.mark.parametrize("name", SAMPLES)
def test_colours_are_inverted_exactly_unless_the_format_is_lossy(name: str) -> None:
    after = distance(frames(inverted(SAMPLES[name])), inverse(frames(SAMPLES[name])))
    assert after < 8 if name in NEARLY else after == 0


def test_equal_frames_of_a_gif_become_one_of_their_time() -> None:
    equal = animated([noise("P"), noise("P", 1)], "GIF", duration=[10, 20])
    assert equal.count(b"!\xf9") == 2
    start = equal.index(b"!\xf9")
    end = equal.rindex(b"!\xf9")
    content = equal[:end] + equal[start:end] + equal[end:]
    assert [image.info["duration"] for image in frames(content)] == [10, 10, 20]
    assert [image.info["duration"] for image in frames(inverted(content))] == [20, 20]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(16, 0, b"\0\1\xab\xcd\xff\xff"), [0xFFFE, 0x5432, 0]),
        (png(2, 0, b"\x1b"), [255, 170, 85, 0]),
        (png(1, 0, b"\x0f", (b"tRNS", b"\0\1")), [(255,) * 4] * 4 + [(0, 0, 0, 0)] * 4),
        (png(8, 0, b"\1\2", (b"tRNS", b"\0\2")), [(254, 254, 254, 255), (253, 253, 253, 0)]),
        (
            png(8, 2, b"\1\2\3\4\5\6", (b"tRNS", b"\0\1\0\2\0\3")),
            [(254, 253, 252, 0), (251, 250, 249, 255)],
        ),
        (png(8, 3, b"\0\1", (b"PLTE", b"\1\2\3\4\5\6")), [0, 1]),
    ],
    ids=["16 bits", "2 bits", "transparent of 1 bit", "of 8 bits", "of RGB", "palette"],
)
def test_samples_of_a_png_are_inverted_exactly(content: bytes, expected: list[Any]) -> None:
    assert samples_of(opened(inverted(content))) == expected


RAW_EXIF = b"\nexif\n32\n" + turned(6).tobytes().hex().encode() + b"\n"
TEXT = b"Raw profile type exif\0" + RAW_EXIF
COMPRESSED_TEXT = b"Raw profile type exif\0\0" + zlib.compress(RAW_EXIF)
TURNED = {
    **{
        f"{file_format} {orientation}": encoded(smooth(), file_format, exif=turned(orientation))
        for file_format in ("JPEG", "PNG", "WEBP")
        for orientation in (*range(1, 9), 99)
    },
    "PNG palette": encoded(noise("P"), "PNG", exif=turned(6), transparency=3),
    "PNG text": png(8, 2, bytes(range(18)), (b"tEXt", TEXT)),
    "PNG compressed text": png(8, 2, bytes(range(18)), (b"zTXt", COMPRESSED_TEXT)),
    "WEBP animated": animated(TURNS, "WEBP", quality=100, exif=turned(6), duration=100),
}


@pytest.mark.parametrize("name", TURNED)
def test_image_is_turned_upright(name: str) -> None:
    content = TURNED[name]
    after = frames(inverted(content))
    assert not any(image.getexif() for image in after)
    upright = [ImageOps.exif_transpose(image) for image in frames(content)]
    assert distance(after, inverse(upright)) < 8 * (name[:3] != "PNG") + 0.01


def test_a_png_of_16_bits_is_turned_upright() -> None:
    content = png(16, 0, bytes(range(18)), (b"eXIf", turned(8).tobytes()[6:]))
    after = opened(inverted(content))
    assert (after.size, dict(after.getexif())) == ((1, 9), {})
    assert samples_of(after) == [65_535 - value for value in samples_of(opened(content))[::-1]]


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize(
    "exif",
    [
        b"no EXIF",
        b"II*\0\xff\xff\xff\xff",
        b"II*\0\x08\0\0\0\xff\xff",
        b"II*\0\x08\0\0\0\1\0" + b"\x12\1",
    ],
)
def test_damaged_exif_data_turn_nothing(exif: bytes) -> None:
    for file_format in ("JPEG", "PNG", "WEBP"):
        content = encoded(smooth(), file_format, exif=b"Exif\0\0" + exif)
        assert distance(frames(inverted(content)), inverse([smooth()])) < 8
    assert inverted(png(8, 0, b"\1", (b"tEXt", b"Raw profile type exif\0xyz")))


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "WEBP animated"])
@pytest.mark.parametrize("size", [len(ICC_PROFILE), 3_000_000])
def test_icc_profile_is_kept_and_other_metadata_dropped(file_format: str, size: int) -> None:
    name, _, is_animated = file_format.partition(" ")
    profile, texts = ICC_PROFILE.ljust(size, b"\0"), PngInfo()
    for chunk_name in (b"tEXt", b"iTXt"):
        texts.add(chunk_name, b"SECRET\0\0\0\0\0SECRET")
    texts.add(b"gAMA", bytes(3) + b"1")
    options: dict[str, Any] = {"icc_profile": profile, "exif": turned(1), "dpi": (300, 150)}
    options |= {"xmp": b"SECRET", "comment": b"SECRET", "pnginfo": texts}
    if is_animated:
        options |= {"save_all": True, "append_images": [smooth(turns=1)]}
    content = encoded(smooth(), name, **options)
    assert opened(content).info["icc_profile"] == profile
    after = inverted(content)
    assert opened(after).info["icc_profile"] == profile
    for dropped in b"SECRET Exif EXIF eXIf Kamera gAMA pHYs Photoshop".split():
        assert dropped not in after
    assert "dpi" not in opened(after).info


def test_comments_and_xmp_of_a_gif_are_dropped() -> None:
    content = encoded(noise("P"), "GIF", comment=b"SECRET")
    assert b"SECRET" in content
    with_xmp = content[:-1] + b"!\xff\x0bXMP DataXMP\6SECRET\0;"
    assert b"SECRET" not in inverted(with_xmp)


def webp_with_canvas(width: int, height: int) -> bytes:
    """Give an animated WebP whose header states this size, from 1 to 2**24."""
    content = SAMPLES["WebP animated"]
    sides = b"".join(struct.pack("<I", side - 1)[:3] for side in (width, height))
    return content[:24] + sides + content[30:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (animated([noise(), noise("RGB", 1)], "PNG", duration=100), "animated PNG"),
        (png(16, 2, bytes(6)), "16 bits"),
        (png(16, 4, bytes(4)), "16 bits"),
        (png(16, 6, bytes(8)), "16 bits"),
        (png(16, 0, bytes(2), (b"tRNS", b"\0\1")), "16 bits"),
        (png(4, 0, b"\0", (b"tRNS", b"\0\1")), "4 bits"),
        (png(2, 0, b"\0", (b"tRNS", b"\0\1")), "2 bits"),
        (png(8, 3, b"\2", (b"PLTE", bytes(6))), "beyond the palette"),
        (png(8, 3, b"\0"), "beyond the palette"),
        (encoded(Image.new("CMYK", SIZE), "JPEG"), "CMYK"),
        (webp_with_canvas(16_384, 48), "canvas"),
    ],
)
def test_image_that_pillow_would_change_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidImage, match=reason):
        invert(content, 10 * ENOUGH)


WHOLE = {name: SAMPLES[name] for name in ("JPEG", "PNG RGB", "GIF P", "WebP RGB")}
REASONS = {
    "an empty file": b"",
    "a PDF": b"%PDF-1.7",
    "a BMP": encoded(noise(), "BMP"),
    "a TIFF image, or a camera's raw file": encoded(noise(), "TIFF"),
    "or a camera's raw file": encoded(noise(), "TIFF", big_endian=True),
    "is a camera's raw file": b"FUJIFILMCCD-RAW 0201",
    "The file is a camera's raw file": b"\0\0\0\x18ftypcrx \0\0\0\1crx isom",  # Canon's
    "an AVIF": encoded(noise(), "AVIF"),
    "a HEIC": b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic",
    "a video": b"\0\0\0\x14ftypisom\0\0\2\0isommp41",
    "a JPEG XL": b"\xff\x0a\x10\x10",
    "an SVG": b'<?xml version="1.0"?>\n<!-- of a tool -->\n<svg xmlns="http://www.w3.org/2000/svg">',
    "an SVG image": b" <svg/>",
    "SVG": b'\xef\xbb\xbf<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" [<!ENTITY a "b">]>\n<svg>',
    "text": "<!-- a --><!DOCTYPE html><title>Ein schönes Bild</title><svg/>".encode(),
    "is text": b"<!---->" * 100_000,
    "unknown": encoded(noise(), "ICO"),
    "JPEG image that is cut off or damaged": SAMPLES["JPEG"][:200] + SAMPLES["JPEG"][-2:],
    "PNG image that is cut off or damaged": replaced(SAMPLES["PNG RGB"], b"IDAT", b"IDAt"),
    "WebP image that is cut off or damaged": b"RIFF\x08\0\0\0WEBPVP8 ",
    "GIF image that is cut off or damaged": SAMPLES["GIF P"][:13] + b";",
    **{
        f"{name.split()[0]} image that is cut off": content[:-30] for name, content in WHOLE.items()
    },
    "JPEG image that is cut off or": b"\xff\xd8\xff",
}


@pytest.mark.parametrize("reason", REASONS)
def test_refusal_says_what_the_file_is_and_quotes_nothing(reason: str) -> None:
    with pytest.raises(InvalidImage, match=re.escape(reason)) as caught:
        invert(REASONS[reason], ENOUGH)
    assert not isinstance(caught.value.__cause__, NoneType | KeyError)  # no other was opened
    assert str(caught.value.__cause__) not in str(caught.value)


def test_wrong_checksums_are_accepted_in_text_but_not_in_pixels() -> None:
    content = png(8, 0, b"\1", (b"tEXt", b"a\0b"))
    pixels, text = (content.index(name) for name in (b"IDAT", b"tEXt"))
    assert inverted(content[: text + 9] + b"x" + content[text + 10 :]) == inverted(content)
    end = pixels + 4 + struct.unpack_from(">I", content, pixels - 4)[0]
    with pytest.raises(InvalidImage, match="PNG image that is cut off or damaged"):
        inverted(content[:end] + b"x" + content[end + 1 :])


def test_bytes_after_the_end_and_missing_gif_ends_are_accepted() -> None:
    content = EXACT["GIF animated"]
    for end in (b"", b"\0\0", b";more"):
        assert inverted(content[:-1] + end) == inverted(content)
    for whole in WHOLE.values():
        assert inverted(whole + b"more") == inverted(whole)


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
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_image_or_invalid(sample: str, edits: list[tuple[int, int, int]]) -> None:
    content = bytearray(SAMPLES[sample])
    for anywhere, value, length in edits:
        place = anywhere % (len(content) + 1)
        content[place : place + length] = bytes([value]) * (1 + length // 2)
    with suppress(InvalidImage):
        result = invert(bytes(content), maximum_pixels=100_000)
        with Image.open(BytesIO(result.content)) as image:
            image.load()
            assert Image.MIME[str(image.format)] == result.content_type


def test_too_many_frames_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for file_format in ("GIF", "WEBP"):
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


def bomb_gif(frame: int) -> bytes:
    """Give a GIF with one large frame; Pillow fills a frame's place if its canvas is cleared."""
    images = [noise("P", seed, (4, 4)) for seed in range(2)]
    content = bytearray(animated(images, "GIF", disposal=2, duration=10))
    places = [place.start() + 9 for place in re.finditer(b"!\xf9\4...\0\0,", content)]
    content[places[frame] + 4 : places[frame] + 8] = struct.pack("<2H", 50_000, 50_000)
    return bytes(content)


BOMBS = [bomb_png(), bomb_gif(0), bomb_gif(1), webp_with_canvas(50_000, 50_000)]


@pytest.mark.parametrize("content", BOMBS)
def test_bomb_is_refused_before_it_takes_memory(content: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidImage, match="too large"):
        invert(content, 1_000_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("PIL.Image.Image.save", OSError),  # of the encoder
        ("PIL.ImageFile.ImageFile.load", MemoryError),
        ("PIL.ImageOps.exif_transpose", MemoryError),
    ],
)
def test_an_error_that_is_not_the_images_is_a_fault(where: str, error: type[Exception]) -> None:
    with patch(where, side_effect=error), pytest.raises(error):
        invert(SAMPLES["JPEG"], ENOUGH)


def test_equal_gif_frames_that_last_too_long_are_refused() -> None:
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0xF0, 0, 0) + b"\0\0\0\xff\0\0"
    control = b"!\xf9\x04\0\xff\xff\0\0"  # for 655.35 s, the most
    frame = control + b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\0"
    assert invert(head + frame + b";", 10).content_type == "image/gif"
    with pytest.raises(InvalidImage, match="lasts longer"):
        invert(head + 2 * frame + b";", 10)
