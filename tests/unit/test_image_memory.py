"""The memory that the inversion of the largest image needs."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from inorder import PROJECT
from tests.support.resolved_template import template

# Prints the bytes of memory that the work needs at most.
MEASURE = """
import resource, sys
from pathlib import Path
from invert_image.inversion import invert
content = Path(sys.argv[1]).read_bytes()
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = most()
invert(content, maximum_pixels=10**9)
print(most() - before)
"""


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "lossless WEBP"])
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
    ).stdout
    parameters = template()["Parameters"]
    function = template()["Resources"]["InvertImageFunction"]["Properties"]
    largest = parameters["MaximumPixels"]["Default"] / side**2 * int(measured)
    source = int(function["Environment"]["Variables"]["MAXIMUM_BYTES"])
    of_the_rest = 100 * 2**20  # Python, boto3, and what Lambda itself needs
    memory = parameters["FunctionMemorySize"]["Default"] * 2**20
    assert largest + source + of_the_rest < memory
