"""The pictures that the demonstration uploads."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle, islice
from mimetypes import guess_type
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw, ImageFont, ImageOps, UnidentifiedImageError

from inorder.errors import Failure

WIDTH, HEIGHT = 240, 180
SUPERSAMPLING = 2  # Pillow's polygons have no antialiasing: draw larger, then reduce
OWN_FORMATS = (("jpg", "JPEG"), ("png", "PNG"), ("gif", "GIF"), ("webp", "WEBP"))
FOLDER_FORMATS = ("JPEG", "PNG", "GIF", "WEBP")
OLD_HUES = (-5, 20)  # red to orange, in degrees
NEW_HUES = (165, 215)  # green to blue
SLOW_EVERY = 6  # the old picture of each sixth key is made slow, if the function can be


@dataclass(frozen=True)
class PicturePair:
    """Two pictures for one object key: the old one, and the new one that overwrites it."""

    key: str
    old: bytes
    new: bytes


def own_pairs(count: int) -> list[PicturePair]:
    """Draw pairs of landscapes, the same ones each time.

    Inverted, each old picture is red to orange and each new one green to blue.
    """
    pairs = []
    for number, (suffix, image_format) in zip(range(1, count + 1), cycle(OWN_FORMATS)):
        old = _negative(_landscape(number, OLD_HUES, "OLD"), image_format)
        new = _negative(_landscape(number, NEW_HUES, "NEW"), image_format)
        pairs.append(PicturePair(f"gallery/picture-{number:03}.{suffix}", old, new))
    return pairs


def pairs_from_folder(folder: Path, count: int, say: Callable[[str], None]) -> list[PicturePair]:
    """Make pairs of the user's own pictures, using them again in turn if they are too few.

    Each new picture is the file, byte for byte; each old one is the same picture in grey, marked as
    old, in the same format. A folder that cannot be read or holds no picture is a Failure.
    """
    try:
        pictures = list(islice(_readable_pictures(folder, say), count))
    except OSError as error:
        raise Failure(f"Cannot read folder {folder}: {error.strerror}") from error
    if count and not pictures:
        raise Failure(f"No picture ({', '.join(FOLDER_FORMATS)}) in folder {folder}")
    return [
        PicturePair(f"gallery/{number:03}-{name}", old, new)
        for number, (name, old, new) in zip(range(1, count + 1), cycle(pictures))
    ]


def _readable_pictures(
    folder: Path, say: Callable[[str], None]
) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield name, old and new content of each picture, by name; warn of unreadable ones."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_file():
            continue
        try:
            with Image.open(path, formats=FOLDER_FORMATS) as picture:
                old = _marked_as_old(picture)
            new = path.read_bytes()
        except Exception as error:  # a broken picture can raise almost anything in Pillow
            named_as_picture = (guess_type(path.name, strict=False)[0] or "").startswith("image/")
            if named_as_picture or not isinstance(error, UnidentifiedImageError):
                say(f"Skipped {path}, which cannot be read: {error}")
        else:
            yield path.name, old, new


def _marked_as_old(picture: Image.Image) -> bytes:
    """Return the picture in grey with an OLD band, which is red once inverted."""
    upright = ImageOps.exif_transpose(picture).convert("RGBA")
    opaque = Image.new("RGBA", upright.size, "white")
    opaque.alpha_composite(upright)
    inverse = ImageOps.invert(ImageOps.grayscale(opaque)).convert("RGB")
    middle, half_band = inverse.height / 2, min(inverse.size) / 5
    band = (0, middle - half_band, inverse.width, middle + half_band)
    ImageDraw.Draw(inverse).rectangle(band, fill="crimson")
    _write(inverse, "OLD", min(inverse.size) / 3)
    return _negative(inverse, picture.format)


def _landscape(number: int, hues: tuple[int, int], word: str) -> Image.Image:
    """Draw the numbered landscape; its shapes depend on the number alone."""
    scene = Random(number)  # noqa: S311 - for variety, not for secrecy
    hue = scene.uniform(*hues)
    width, height = WIDTH * SUPERSAMPLING, HEIGHT * SUPERSAMPLING
    gradient = Image.linear_gradient("L").resize((width, height))
    image = ImageOps.colorize(gradient, black=_colour(hue, 45), white=_colour(hue + 20, 80))
    draw = ImageDraw.Draw(image)
    sun = (scene.uniform(0.15, 0.85) * width, scene.uniform(0.15, 0.35) * height)
    draw.circle(sun, scene.uniform(0.08, 0.16) * height, fill=_colour(hue + 25, 88))
    for layer in range(4):
        horizon, waves = 0.42 + 0.15 * layer, scene.uniform(3, 9) / width
        ys = (horizon + 0.06 * math.sin(waves * x + layer) for x in range(width))
        ridge = [(x, y * height) for x, y in enumerate(ys)]
        draw.polygon([(0, height), *ridge, (width, height)], fill=_colour(hue, 48 - 10 * layer))
    _write(image, word, 0.42 * height)
    return image.reduce(SUPERSAMPLING)


def _colour(hue: float, lightness: int) -> str:
    return f"hsl({hue % 360:.0f}, 70%, {lightness}%)"


def _write(image: Image.Image, word: str, size: float) -> None:
    font = ImageFont.load_default(max(size, 1))
    draw, middle = ImageDraw.Draw(image), (image.width / 2, image.height / 2)
    draw.text(middle, word, "white", font, anchor="mm", stroke_width=size / 32, stroke_fill="black")


def _negative(image: Image.Image, image_format: str | None) -> bytes:
    """Encode the inverse, so that the picture looks as it was drawn once it is inverted again."""
    content = BytesIO()
    ImageOps.invert(image).save(content, image_format)
    return content.getvalue()
