"""What several kinds of tests share: pictures, and a local AWS for those that need a server."""

import gc
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import HealthCheck, settings
from PIL import Image

from inorder import local_aws
from inorder.aws import stack
from inorder.local_aws import LocalAws
from tests.support import moto_parts, quick_sam
from tests.support.in_process import aws
from tests.support.selection import policies_of

__all__ = ["aws"]

if yaml.__with_libyaml__:  # SAM's parser of templates takes seven times as long in Python
    yaml.SafeLoader = yaml.CSafeLoader

# How fast a machine makes examples says nothing about them.
settings.register_profile("any-speed", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-speed")

FEW_WORKERS = "tests.support.few_workers"  # the module that is the server
# A wait of 5 s takes 0.6 s.
WAIT_SCALE = 0.12


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--policy", help="Run only the tests that are about this policy.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if policy := config.getoption("--policy"):
        others = [item for item in items if policy not in policies_of(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if policy in policies_of(item)]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "policy(name): the policy whose state machine `aws` runs")


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and only in what the tests make: it takes a tenth of their time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def no_limit_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give Pillow its own limit of pixels again: the function sets one for its process."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)


@pytest.fixture(autouse=True)
def no_aws_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests from whatever AWS the environment points at."""
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture(scope="session", autouse=True)
def sam() -> Iterator[None]:
    """Start SAM quickly; the commands that are processes of their own start it as users do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "subprocess", SimpleNamespace(run=quick_sam.run))
        yield


@pytest.fixture(scope="session", autouse=True)
def null_versions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        moto_parts.find_null_versions(patch)
        yield


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    folder = tmp_path_factory.mktemp("local-aws")
    with local_aws.start(folder, wait_scale=WAIT_SCALE, server=FEW_WORKERS) as server:
        yield server


def picture(colour: tuple[int, int, int], file_format: str = "PNG") -> bytes:
    """Make an image file of one colour."""
    file = BytesIO()
    Image.new("RGB", (16, 16), colour).save(file, file_format)
    return file.getvalue()


def colour_of(content: bytes) -> tuple[int, int, int]:
    """Read the colour of the first pixel of an image file."""
    pixel = Image.open(BytesIO(content)).convert("RGB").getpixel((0, 0))
    assert isinstance(pixel, tuple)
    red, green, blue = pixel
    return red, green, blue
