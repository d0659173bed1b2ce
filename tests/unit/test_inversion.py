"""The inversion of images that Pillow has written."""

import random
import struct
import zlib
from io import BytesIO
from typing import Any

import pytest
from inversion import InvalidImage, invert
from PIL import (
    Image,
    ImageChops,
    ImageCms,
    ImageFile,
    ImageSequence,
    TiffTags,
    UnidentifiedImageError,
)
from PIL.ExifTags import Base as Tag
from PIL.JpegImagePlugin import JpegImageFile, get_sampling
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import ImageFileDirectory_v2

SIZE = (24, 16)
ENOUGH = 1_000_000
ROTATED = Image.Exif()
ROTATED[Tag.Orientation], ROTATED[Tag.Make] = 8, "Kamera"
ICC_PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def picture(mode: str = "RGB", seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    """Give noise, of all degrees of transparency in a mode with alpha."""
    noise = random.Random(seed)  # noqa: S311
    if mode in {"I;16", "I;16B"}:
        return Image.frombytes(mode, size, noise.randbytes(size[0] * size[1] * 2))
    data = noise.randbytes(size[0] * size[1] * 4)
    if mode == "CMYK":
        return Image.frombytes(mode, size, data)
    rgba = Image.frombytes("RGBA", size, data)
    if mode == "PA":
        palette = rgba.convert("P").convert("PA")
        palette.putalpha(rgba.getchannel("A"))
        return palette
    return rgba.convert(mode) if mode in {"LA", "RGBA"} else rgba.convert("RGB").convert(mode)


def smooth(mode: str = "RGB") -> Image.Image:
    """Give ramps, which lossy formats hardly change."""
    ramp = Image.linear_gradient("L").resize((48, 48))
    bands = Image.new(mode, (1, 1)).getbands()
    return Image.merge(mode, [ramp.rotate(90 * turns) for turns in range(len(bands))])


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
    return ImageSequence.all_frames(Image.open(BytesIO(content)))


def samples(image: Image.Image) -> list[Any]:
    return list(image.get_flattened_data())


def inverted(content: bytes) -> bytes:
    return invert(content, ENOUGH).content


def seen(image: Image.Image) -> Image.Image:
    return image.convert("RGB").convert("RGBA") if image.mode == "CMYK" else image.convert("RGBA")


def inverse(image: Image.Image) -> Image.Image:
    *colours, alpha = seen(image).split()
    return Image.merge("RGBA", [*map(ImageChops.invert, colours), alpha])


def pixels(images: list[Image.Image]) -> list[bytes]:
    """Give the pixels without such colours as are fully transparent."""
    rgba = [seen(image) for image in images]
    opacity = [image.getchannel("A").point([0, *[255] * 255]) for image in rgba]
    return [
        Image.composite(image, Image.new("RGBA", image.size), mask).tobytes()
        for image, mask in zip(rgba, opacity, strict=True)
    ]


def distance(one: Image.Image, other: Image.Image) -> float:
    """Give the mean difference of the pixels' brightest sample, from 0 to 255."""
    red, green, blue = ImageChops.difference(seen(one), seen(other)).split()[:3]
    histogram = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    return sum(value * count for value, count in enumerate(histogram)) / sum(histogram)


def jpeg(content: bytes) -> JpegImageFile:
    image = opened(content)
    assert isinstance(image, JpegImageFile)
    return image


def png(depth: int, colour_type: int, samples: bytes, transparent: bytes = b"") -> bytes:
    """Give a PNG of one row, also of such kinds as Pillow cannot write."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour_type]
    width = len(samples) * 8 // (depth * channels)
    chunks = [(b"IHDR", struct.pack(">2I5B", width, 1, depth, colour_type, 0, 0, 0))]
    if transparent:
        chunks.append((b"tRNS", transparent))
    chunks += [(b"IDAT", zlib.compress(b"\0" + samples)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


LOSSLESS: list[tuple[str, str, dict[str, Any]]] = [
    *[("PNG", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")],
    *[
        ("TIFF", mode, {"compression": compression})
        for mode in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "I;16", "I;16B")
        for compression in ("raw", "tiff_lzw")
    ],
    *[("BMP", mode, {}) for mode in ("1", "L", "P", "RGB")],
    *[("GIF", mode, {}) for mode in ("1", "L", "P")],
    *[("WEBP", mode, {"lossless": True, "exact": True}) for mode in ("RGB", "RGBA")],
]
SAMPLES = {
    **{
        f"{file_format} {mode} {options.get('compression', '')}".strip(): encoded(
            picture(mode), file_format, **options
        )
        for file_format, mode, options in LOSSLESS
    },
    "PNG with metadata": encoded(
        picture(),
        "PNG",
        icc_profile=ICC_PROFILE,
        dpi=(300, 300),
        exif=b"Exif\0\0II*\0\x08\0\0\0\0\0",
    ),
    "APNG": animated([picture("RGBA", seed) for seed in range(3)], "PNG", duration=[50, 60, 70]),
    "GIF animated": animated([picture("P", seed) for seed in range(3)], "GIF", disposal=[1, 2, 3]),
    "JPEG": encoded(picture(), "JPEG", icc_profile=ICC_PROFILE, dpi=(300, 300), comment=b"noise"),
    "JPEG grey": encoded(picture("L"), "JPEG"),
    "JPEG CMYK": encoded(picture("CMYK"), "JPEG"),
    "JPEG progressive": encoded(picture(), "JPEG", progressive=True),
    "MPO": animated([picture(seed=seed) for seed in range(2)], "MPO"),
    "TIFF of many pages": animated([picture(mode) for mode in ("RGB", "1", "P")], "TIFF"),
    "TIFF group 4": encoded(picture("1"), "TIFF", compression="group4"),
    "TIFF JPEG": encoded(picture(), "TIFF", compression="jpeg"),
    "WebP lossy": encoded(picture("RGBA"), "WEBP"),
    "WebP animated": animated([picture("RGBA", seed) for seed in range(3)], "WEBP"),
}
EVERY_SAMPLE = pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES.keys())


@pytest.mark.parametrize(("file_format", "mode", "options"), LOSSLESS)
def test_lossless_image_is_inverted_exactly(
    file_format: str, mode: str, options: dict[str, Any]
) -> None:
    content = encoded(picture(mode), file_format, **options)
    before, result = opened(content), invert(content, ENOUGH)
    after, again = opened(result.content), opened(inverted(result.content))
    assert (after.format, after.size) == (file_format, before.size)
    assert result.content_type == f"image/{file_format.lower()}"
    assert seen(again).tobytes() == seen(before).tobytes()
    if mode.startswith("I;16"):
        assert samples(after) == [65535 - sample for sample in samples(before)]
    else:
        assert file_format == "GIF" or after.mode == before.mode
        assert seen(after).tobytes() == inverse(before).tobytes()


@EVERY_SAMPLE
def test_same_bytes_give_the_same_bytes(content: bytes) -> None:
    assert invert(content, ENOUGH) == invert(content, ENOUGH)


# JPEG


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_jpeg_is_inverted_nearly(mode: str) -> None:
    before = encoded(smooth(mode), "JPEG", quality=95)
    result = invert(before, ENOUGH)
    after = jpeg(result.content)
    assert (after.mode, result.content_type) == (mode, "image/jpeg")
    assert distance(after, inverse(opened(before))) < 2
    assert distance(opened(inverted(result.content)), opened(before)) < 3


def test_black_and_white_in_cmyk_jpeg_are_exchanged() -> None:
    page = Image.new("CMYK", (32, 16), (0, 0, 0, 0))
    page.paste((0, 0, 0, 255), (0, 0, 16, 16))
    after = opened(inverted(encoded(page, "JPEG"))).convert("RGB")
    assert after.getpixel((4, 8)) == (255, 255, 255)
    assert after.getpixel((28, 8)) == (0, 0, 0)


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("quality", [30, 75, 98])
def test_jpeg_keeps_its_quantization_tables_and_subsampling(subsampling: str, quality: int) -> None:
    content = encoded(picture(), "JPEG", quality=quality, subsampling=subsampling)
    before, after = jpeg(content), jpeg(inverted(content))
    assert after.quantization == before.quantization
    assert get_sampling(after) == get_sampling(before)


def test_jpeg_keeps_quantization_tables_in_reverse_order() -> None:
    content = encoded(picture(), "JPEG", qtables=[[2] * 64, [9] * 64])
    first, second = (b"\xff\xdb\0\x43" + bytes([number]) for number in (0, 1))
    start, middle = content.index(first), content.index(second)
    end = middle + 69
    content = content[:start] + content[middle:end] + content[start:middle] + content[end:]
    assert list(jpeg(content).quantization) == [1, 0]
    assert jpeg(inverted(content)).quantization == {0: [2] * 64, 1: [9] * 64}


def test_no_ink_of_a_cmyk_jpeg_gets_the_table_of_chroma() -> None:
    content = encoded(picture("CMYK"), "JPEG", qtables=[[2] * 64, [9] * 64])
    assert jpeg(inverted(content)).quantization == {0: [2] * 64}


@pytest.mark.parametrize("progressive", [True, False])
def test_jpeg_stays_progressive_or_baseline(progressive: bool) -> None:
    after = opened(inverted(encoded(picture(), "JPEG", progressive=progressive)))
    assert ("progressive" in after.info) is progressive


def test_progressive_jpeg_may_be_larger_than_pillows_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noise = picture(size=(200, 200))
    with monkeypatch.context() as patch:
        patch.setattr(ImageFile, "MAXBLOCK", 1_000_000)
        content = encoded(noise, "JPEG", qtables=[[1] * 64], subsampling=0, progressive=True)
    buffer = ImageFile.MAXBLOCK
    assert "progressive" in opened(inverted(content)).info
    assert buffer == ImageFile.MAXBLOCK


def test_exif_longer_than_a_jpeg_segment_is_refused() -> None:
    content = encoded(picture(), "JPEG", exif=b"Exif\0\0" + bytes(60_000))
    segment = content[content.index(b"\xff\xe1") :][: 60_000 + 10]
    with pytest.raises(InvalidImage, match="EXIF"):
        invert(content.replace(segment, segment * 2), ENOUGH)


def test_multi_picture_jpeg_becomes_a_jpeg_of_its_primary_picture() -> None:
    pictures = [smooth(), smooth().rotate(90)]
    after = Image.open(BytesIO(inverted(animated(pictures, "MPO", quality=95))))
    assert after.format == "JPEG"
    assert distance(after, inverse(pictures[0])) < 3


# Metadata


@pytest.mark.parametrize(
    ("name", "value", "file_formats"),
    [
        ("icc_profile", ICC_PROFILE, ["JPEG", "PNG", "TIFF", "WEBP"]),
        ("exif", ROTATED.tobytes(), ["JPEG", "PNG", "WEBP"]),
        ("dpi", (300, 150), ["BMP", "JPEG", "PNG", "TIFF"]),
        ("comment", b"a comment", ["JPEG"]),
        ("xmp", b"<xmp/>", ["JPEG"]),
    ],
)
def test_metadata_is_kept(name: str, value: Any, file_formats: list[str]) -> None:
    for file_format in file_formats:
        content = encoded(picture(), file_format, **{name: value})
        before, after = opened(content), opened(inverted(content))
        assert after.info[name] == before.info[name]
        assert after.size == SIZE  # an orientation is not applied


def test_absurd_resolution_is_dropped() -> None:
    content = encoded(picture(), "BMP", dpi=(10_000_000, 10_000_000))
    assert "dpi" not in opened(inverted(content)).info


def test_text_of_a_png_under_the_names_of_its_metadata_does_no_harm() -> None:
    text = PngInfo()
    for name in ("comment", "disposal", "dpi", "duration", "exif", "icc_profile", "loop", "xmp"):
        text.add_text(name, "text", zip=True)
    text.add_text("transparency", "text")
    images = [picture("P"), picture("P").rotate(180)]
    after = inverted(animated(images, "PNG", pnginfo=text, duration=100))
    assert pixels(frames(after)) == pixels([inverse(image) for image in images])


# Transparency


@pytest.mark.parametrize("transparency", [3, bytes(range(0, 250, 5))])
def test_transparency_of_a_palette_is_kept(transparency: int | bytes) -> None:
    content = encoded(picture("P"), "PNG", transparency=transparency)
    before, after = opened(content), opened(inverted(content))
    assert after.mode == "P"
    assert after.tobytes() == before.tobytes()
    assert after.info["transparency"] == transparency
    assert seen(after).tobytes() == inverse(before).tobytes()


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palette_of_few_colours_keeps_its_depth(bits: int) -> None:
    content = encoded(picture().quantize(1 << bits), "PNG")
    after = inverted(content)
    assert after[24] == content[24] == bits
    assert seen(opened(after)).tobytes() == inverse(opened(content)).tobytes()


@pytest.mark.parametrize(
    ("content", "depth", "key", "expected"),
    [
        (png(1, 0, b"\x0f", b"\0\1"), 1, b"\0\0", [255] * 4 + [0] * 4),
        (png(2, 0, b"\x1b", b"\0\1"), 2, b"\0\2", [255, 170, 85, 0]),
        (png(4, 0, b"\x0f", b"\0\x0f"), 4, b"\0\0", [255, 0]),
        (png(8, 0, b"\1\2", b"\0\2"), 8, b"\0\xfd", [254, 253]),
        (png(16, 0, b"\1\2\3\4", b"\3\4"), 16, b"\xfc\xfb", [0xFEFD, 0xFCFB]),
        (png(8, 2, b"\1\2\3", b"\0\1\0\2\0\3"), 8, b"\0\xfe\0\xfd\0\xfc", [(254, 253, 252)]),
        (png(16, 2, b"\1\4\2\5\3\6", b"\1\4\2\5\3\6"), 8, b"\0\xfe\0\xfd\0\xfc", [(254, 253, 252)]),
    ],
    ids=["1 bit", "2 bits", "4 bits", "8 bits", "16 bits", "RGB", "RGB of 16 bits"],
)
def test_transparent_colour_marks_the_same_pixels(
    content: bytes, depth: int, key: bytes, expected: list[Any]
) -> None:
    after = inverted(content)
    position = after.index(b"tRNS")
    assert after[position + 4 : position + 4 + len(key)] == key
    assert after[24] == depth
    assert samples(opened(after)) == expected


def test_16_bit_grey_with_alpha_is_reduced_to_8_bits() -> None:
    after = opened(inverted(png(16, 4, b"\x10\x20\x30\x40")))
    assert (after.mode, after.getpixel((0, 0))) == ("RGBA", (0xEF, 0xEF, 0xEF, 0x30))


# Animations


def partial_gif() -> bytes:
    """Give frames smaller than the canvas, of tables of their own, of all kinds of disposal."""
    base = picture("P", size=(32, 32))
    images = [base]
    for step, seed in enumerate((1, 2, 3, 4)):
        image = base.convert("RGBA")
        image.paste(picture("RGB", seed, (8, 8)).quantize(16).convert("RGB"), (6 * step, 5 * step))
        image.paste((0, 0, 0, 0), (20, 2, 26, 6))
        images.append(image)
    durations = [100, 20, 330, 40, 50]
    return animated(images, "GIF", duration=durations, loop=7, disposal=[1, 2, 3, 0, 1])


def test_animated_gif_keeps_partial_frames_and_their_timing() -> None:
    content = partial_gif()
    before, result = Image.open(BytesIO(content)), invert(content, ENOUGH)
    assert any(
        isinstance(frame, ImageFile.ImageFile) and frame.tile[0].extents != (0, 0, 32, 32)
        for frame in ImageSequence.Iterator(before)
    )
    assert pixels(frames(result.content)) == pixels([inverse(frame) for frame in frames(content)])
    assert [frame.info["duration"] for frame in frames(result.content)] == [100, 20, 330, 40, 50]
    after = Image.open(BytesIO(result.content))
    assert (after.info["loop"], result.content_type) == (7, "image/gif")


def test_gif_differs_in_its_colour_tables_alone() -> None:
    content = encoded(picture("P"), "GIF", comment=b"a comment", transparency=5)
    after = inverted(content)
    table = slice(13, 13 + 3 * 256)
    assert (
        after[: table.start] + after[table.stop :] == content[: table.start] + content[table.stop :]
    )
    assert bytes(255 - value for value in after[table]) == content[table]


def test_gif_frame_without_a_colour_table_is_refused() -> None:
    content = bytearray(encoded(Image.new("P", SIZE), "GIF"))
    size = 3 << (content[10] & 7) + 1
    content[10] = 0
    del content[13 : 13 + size]
    with pytest.raises(InvalidImage, match="colour table"):
        invert(bytes(content), ENOUGH)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("default_image", [False, True])
def test_animated_png_keeps_its_frames_and_their_timing(mode: str, default_image: bool) -> None:
    images = [picture(mode, seed) for seed in range(4)]
    for image in images[1:] if mode == "P" else []:
        image.putpalette(images[0].getpalette() or [])
    durations = [100, 200, 50, 70][default_image:]
    content = animated(images, "PNG", duration=durations, loop=3, default_image=default_image)
    after = inverted(content)
    assert pixels(frames(after)) == pixels([inverse(frame) for frame in frames(content)])
    assert [frame.info["duration"] for frame in frames(after)[default_image:]] == durations
    assert Image.open(BytesIO(after)).info["loop"] == 3
    assert Image.open(BytesIO(after)).info.get("default_image", False) is default_image


def test_animated_png_without_the_pixels_of_its_last_frame_is_refused() -> None:
    content = SAMPLES["APNG"]
    position = content.rindex(b"fdAT")
    renamed = b"unIT" + content[position + 4 : -16]
    checksum = struct.pack(">I", zlib.crc32(renamed))
    with pytest.raises(InvalidImage, match="lacks frames"):
        invert(content[:position] + renamed + checksum + content[-12:], ENOUGH)


def test_animated_png_keeps_what_disposal_and_blending_show() -> None:
    images = [picture("RGBA", seed) for seed in range(4)]
    content = animated(images, "PNG", disposal=[0, 1, 2, 0], blend=[0, 1, 1, 0])
    assert len(frames(content)) == 4
    assert pixels(frames(inverted(content))) == pixels(
        [inverse(frame) for frame in frames(content)]
    )


def test_animated_palette_png_has_transparent_and_opaque_pixels_of_one_colour() -> None:
    images = [Image.new("P", SIZE, index) for index in (0, 1)]
    for image in images:
        image.putpalette([9, 9, 9, 9, 9, 9])
        image.info["transparency"] = 0
    content = animated(images, "PNG", duration=100)
    alpha = [seen(frame).getpixel((0, 0)) for frame in frames(inverted(content))]
    assert alpha == [(246, 246, 246, 0), (246, 246, 246, 255)]


def test_animated_16_bit_png_is_refused() -> None:
    frame = encoded(picture("I;16"), "PNG")
    content = animated([picture("L"), picture("L", 1)], "PNG")
    data = frame.index(b"IDAT") - 4
    header, control = content[:33], content[33 : content.index(b"IDAT") - 4]
    assert header[24] == 8
    with pytest.raises(InvalidImage, match="16-bit"):
        invert(frame[:33] + control + frame[data:-12] + frame[-12:], ENOUGH)


@pytest.mark.parametrize("lossless", [True, False])
def test_animated_webp_keeps_its_frames_and_their_timing(lossless: bool) -> None:
    images = [smooth().rotate(90 * turns) for turns in range(3)]
    for image in images:
        image.putalpha(Image.radial_gradient("L").resize((48, 48)).point([0] * 128 + [255] * 128))
    durations = [100, 200, 50]
    content = animated(images, "WEBP", duration=durations, loop=3, lossless=lossless, quality=100)
    after = inverted(content)
    for one, other in zip(frames(after), frames(content), strict=True):
        assert one.getchannel("A").tobytes() == other.getchannel("A").tobytes()
        expected = Image.composite(inverse(other), seen(one), other.getchannel("A"))
        assert distance(one, expected) <= (0 if lossless else 8)
    assert [frame.info["duration"] for frame in frames(after)] == durations
    assert Image.open(BytesIO(after)).info["loop"] == 3
    assert (b"VP8L" in after) is lossless


@pytest.mark.parametrize("lossless", [True, False])
def test_webp_stays_lossless_or_lossy(lossless: bool) -> None:
    content = encoded(smooth("RGBA"), "WEBP", lossless=lossless, exif=b"Exif\0\0")
    after = inverted(content)
    assert (b"VP8L" in after) is lossless
    assert opened(after).getchannel("A").tobytes() == opened(content).getchannel("A").tobytes()
    assert distance(opened(after), inverse(opened(content))) < 8


def test_webp_canvas_larger_than_can_be_written_is_refused() -> None:
    content = SAMPLES["WebP animated"]
    with pytest.raises(InvalidImage, match="canvas"):
        invert(content[:24] + struct.pack("<I", 16_383)[:3] + content[27:], ENOUGH)


# TIFF


COMPRESSIONS = (
    *("raw", "packbits", "group4", "jpeg"),
    *("tiff_lzw", "tiff_adobe_deflate", "lzma", "zstd"),
)


def test_pages_of_a_tiff_keep_their_modes_sizes_and_compressions() -> None:
    modes = {"group4": "1", "jpeg": "RGB"}
    pages = []
    for number, compression in enumerate(COMPRESSIONS):
        page = picture(modes.get(compression, "P"), number, (20 + number, 16))
        page.encoderinfo = {"compression": compression}
        pages.append(page)
    content = animated(pages, "TIFF")
    before, after = (Image.open(BytesIO(data)) for data in (content, inverted(content)))
    for number, compression in enumerate(COMPRESSIONS):
        before.seek(number)
        after.seek(number)
        assert (after.mode, after.size) == (before.mode, before.size)
        assert after.info["compression"] == before.info["compression"] == compression
        if compression == "jpeg":
            assert distance(after, inverse(before)) < 50
        else:
            assert seen(after).tobytes() == inverse(before).tobytes()
    assert after.tell() == getattr(after, "n_frames", 0) - 1


def test_metadata_of_a_tiff_page_stays_with_that_page() -> None:
    first, second = picture(), picture(seed=1)
    first.encoderinfo = {
        "dpi": (300, 200),
        "icc_profile": ICC_PROFILE,
        "tiffinfo": {Tag.Artist: "Artist", Tag.Make: "Maker"},
    }
    after = Image.open(BytesIO(inverted(animated([first, second], "TIFF", compression="tiff_lzw"))))
    assert after.info["dpi"] == (300, 200)
    assert after.info["icc_profile"] == ICC_PROFILE
    assert after.getexif()[Tag.Artist] == "Artist"
    assert after.getexif()[Tag.Make] == "Maker"
    after.seek(1)
    for tag in (Tag.XResolution, Tag.InterColorProfile, Tag.Artist, Tag.Make):
        assert tag not in after.getexif()


@pytest.mark.parametrize("orientation", [3, 6])
def test_tiff_is_displayed_in_its_orientation(orientation: int) -> None:
    content = encoded(picture(), "TIFF", tiffinfo={Tag.Orientation: orientation})
    before, after = opened(content), opened(inverted(content))
    assert after.size == before.size
    assert seen(after).tobytes() == inverse(before).tobytes()


def test_tiff_gets_a_lossless_compression_where_pillow_cannot_write_its_own() -> None:
    red_and_green = {Tag.ColorMap: (65535, 0, 0, 65535, 0, 0)}
    bilevel = encoded(picture("1"), "TIFF", compression="group4", tiffinfo=red_and_green)
    black_is_zero, palette = (
        struct.pack("<2HIH", Tag.PhotometricInterpretation, 3, 1, value) for value in (1, 3)
    )
    before = opened(content := bilevel.replace(black_is_zero, palette))
    assert (before.mode, before.info["compression"]) == ("P", "group4")
    after = opened(inverted(content))
    assert (after.mode, after.info["compression"]) == ("P", "tiff_adobe_deflate")
    assert seen(after).tobytes() == inverse(before).tobytes()


def test_16_bit_grey_tiff_in_which_zero_is_white() -> None:
    black_is_zero = encoded(picture("I;16"), "TIFF")
    entry = struct.pack("<HHIHH", Tag.PhotometricInterpretation, 3, 1, 1, 0)
    assert black_is_zero.count(entry) == 1
    white_is_zero = black_is_zero.replace(entry, entry[:8] + bytes(4))
    # The same samples mean the opposite, so the inverse has the samples of the original.
    after = opened(inverted(white_is_zero))
    assert after.getexif()[Tag.PhotometricInterpretation] == 1
    assert after.tobytes() == picture("I;16").tobytes()


def test_tiff_text_that_is_a_number_is_dropped() -> None:
    tags = ImageFileDirectory_v2()
    tags.tagtype[Tag.Make] = TiffTags.SHORT
    tags[Tag.Make] = 5
    content = encoded(picture(), "TIFF", tiffinfo=tags)
    assert opened(content).getexif()[Tag.Make] == 5
    assert Tag.Make not in opened(inverted(content)).getexif()


@pytest.mark.parametrize("mode", ["F", "I", "LAB"])
def test_tiff_of_colours_without_an_inverse_is_refused(mode: str) -> None:
    with pytest.raises(InvalidImage, match=f"mode {mode}"):
        invert(encoded(Image.new(mode, SIZE), "TIFF"), ENOUGH)


# Refused: not an image


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain text",
        b"<!DOCTYPE html><title>An image</title>",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"II*\0",
        b"BM",
        bytes(1000),
    ],
)
def test_other_bytes_are_refused_and_not_quoted(content: bytes) -> None:
    with pytest.raises(InvalidImage) as caught:
        invert(content, ENOUGH)
    assert caught.value.__cause__ is not None
    assert str(caught.value.__cause__) not in str(caught.value)


@pytest.mark.parametrize("file_format", ["EPS", "ICO", "PPM", "TGA", "JPEG2000", "AVIF"])
def test_other_format_is_not_opened(file_format: str) -> None:
    content = encoded(picture(), file_format)
    with pytest.raises(InvalidImage) as caught:
        invert(content, ENOUGH)
    assert isinstance(caught.value.__cause__, UnidentifiedImageError)


@EVERY_SAMPLE
@pytest.mark.filterwarnings("ignore")
def test_truncated_image_is_refused_unless_its_pixels_are_complete(content: bytes) -> None:
    whole = pixels(frames(inverted(content)))
    lengths = [len(content) * part // 16 for part in range(16)]
    lengths += [len(content) - bytes_cut for bytes_cut in (1, 2, 4, 8, 13, 30)]
    for length in lengths:
        try:
            result = inverted(content[:length])
        except InvalidImage:
            continue
        # Only bytes that carry no pixels were cut.
        assert length > len(content) / 2
        assert pixels(frames(result)) == whole


# Refused: too large


def bomb_png() -> bytes:
    content = bytearray(encoded(Image.new("L", (1, 1)), "PNG"))
    content[16:24] = struct.pack(">2I", 50_000, 50_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


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


@EVERY_SAMPLE
def test_limit_counts_the_pixels_of_all_frames(content: bytes) -> None:
    images = frames(content)
    if Image.open(BytesIO(content)).format == "MPO":
        images = images[:1]
    total = sum(image.width * image.height for image in images)
    invert(content, total)
    with pytest.raises(InvalidImage, match="too large"):
        invert(content, total - 1)


@pytest.mark.parametrize("file_format", ["GIF", "PNG", "TIFF", "WEBP"])
def test_too_many_frames_are_refused(file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = animated([picture("RGB", seed, (4, 4)) for seed in range(5)], file_format)
    monkeypatch.setattr("inversion._MAXIMUM_FRAMES", 5)
    invert(content, ENOUGH)
    monkeypatch.setattr("inversion._MAXIMUM_FRAMES", 4)
    with pytest.raises(InvalidImage, match="5 frame"):
        invert(content, ENOUGH)


# Faults


@pytest.mark.parametrize("sample", ["JPEG", "APNG", "TIFF of many pages", "WebP animated"])
def test_error_of_the_encoder_is_a_fault(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_options: Any) -> None:
        raise OSError("of the encoder")

    monkeypatch.setattr(Image.Image, "save", fail)
    with pytest.raises(OSError, match="of the encoder"):
        invert(SAMPLES[sample], ENOUGH)
