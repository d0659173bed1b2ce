"""Any bytes give an inverted image or InvalidImage, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from bench.resolved_template import template
from inorder import PROJECT
from invert_image.inversion import InvalidImage, invert
from tests.unit.test_inversion import SAMPLES

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of damaged files


@given(
    sample=st.sampled_from(sorted(SAMPLES)),
    edits=st.lists(
        st.tuples(st.integers(0, 2**16), st.integers(0, 255), st.integers(0, 3)), min_size=1
    ),
)
@example(sample="APNG 1 False", edits=[(8, 0, 1)])  # still an animation
@settings(max_examples=300, deadline=None)
def test_changed_bytes_are_an_image_or_invalid(
    sample: str, edits: list[tuple[int, int, int]]
) -> None:
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
