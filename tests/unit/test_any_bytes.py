"""Any bytes give an inverted image or InvalidImage, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from inorder import PROJECT
from inorder.resolved_template import template
from invert_image.inversion import InvalidImage, invert
from tests.conftest import picture
from tests.unit.test_inversion import SAMPLES

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of damaged files

MAXIMUM_PIXELS = 100_000
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
SIGNATURES = [picture((9, 99, 199), file_format)[:12] for file_format in FORMATS]


def is_image_or_invalid(content: bytes) -> None:
    try:
        inverted = invert(content, MAXIMUM_PIXELS)
    except InvalidImage:
        pass
    else:
        with Image.open(BytesIO(inverted.content)) as image:
            image.load()
            # The media type of the format: Pillow has another one for an animated PNG.
            assert Image.MIME[str(image.format)] == inverted.content_type


@given(signature=st.sampled_from([b"", *SIGNATURES]), rest=st.binary(max_size=500))
@settings(max_examples=200, deadline=None)
def test_any_bytes_with_or_without_the_start_of_an_image(signature: bytes, rest: bytes) -> None:
    is_image_or_invalid(signature + rest)


@given(
    sample=st.sampled_from(sorted(SAMPLES)),
    edits=st.lists(
        st.tuples(st.integers(0, 2**16), st.integers(0, 255), st.integers(0, 3)), min_size=1
    ),
)
@example(sample="APNG 1 False", edits=[(8, 0, 1)])  # still an animation
@settings(max_examples=300, deadline=None)
def test_images_with_changed_bytes(sample: str, edits: list[tuple[int, int, int]]) -> None:
    content = bytearray(SAMPLES[sample])
    for anywhere, value, length in edits:
        place = anywhere % (len(content) + 1)
        content[place : place + length] = bytes([value]) * (1 + length // 2)
    is_image_or_invalid(bytes(content))


# The most memory that the work and this process, to which it sends its result, have needed more.
MEASURE = """
import resource, sys
from functools import partial
from pathlib import Path
from inorder_fence import in_time
from invert_image.inversion import invert
content, work = Path(sys.argv[1]).read_bytes(), partial(invert, maximum_pixels=10**9)
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = most()
in_time(work, content, 60)
of_this_process = most() - before
work(content)
print(of_this_process + most() - before)
"""


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "TIFF", "WEBP", "lossless WEBP"])
def test_the_largest_image_fits_into_the_functions_memory(tmp_path: Path, file_format: str) -> None:
    """Measure a part of the pixels: memory is proportional to them."""
    side = 1000
    noise = Image.effect_noise((side, side), 100).convert("RGB")
    file = tmp_path / "image"
    lossless = file_format.startswith("lossless")
    options = {"lossless": True, "method": 0, "quality": 20} if lossless else {}
    noise.save(file, file_format.removeprefix("lossless "), **options)
    measured = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", MEASURE, str(file)],
        cwd=PROJECT / "functions",
        check=True,
        capture_output=True,
        text=True,
    )
    parameters = template()["Parameters"]
    function = template()["Resources"]["InvertImageFunction"]["Properties"]
    largest = parameters["MaximumPixels"]["Default"] / side**2 * int(measured.stdout)
    source = int(function["Environment"]["Variables"]["MAXIMUM_BYTES"])
    of_the_rest = 150 * 2**20  # Python, boto3 and what Lambda itself needs
    memory = parameters["FunctionMemorySize"]["Default"] * 2**20
    assert largest + source + of_the_rest < memory
