"""The example of the fence alone: a slow function, a deletion, and what fails."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import read_object
from inorder.local_aws import LocalAws
from inorder_fence.fenced_output import output_key
from tests.conftest import colour_of, picture
from tests.stack.conftest import CYAN, GREEN, MAGENTA, RED, SECONDS, Colour, Deployed, edit
from tests.support.events import upload

EXAMPLE = PROJECT / "examples" / "fence_alone"
# Once it has read a slow picture, the function waits until the test lets it go on.
SLOW = """

import time
from dataclasses import replace
from pathlib import Path

HERE = Path({folder!r})
process = handler


def slow_work(content):
    if content.endswith(b"slow"):
        (HERE / "reading").touch()
        while not (HERE / "released").exists():
            time.sleep(0.1)
    return work(content)


def handler(event, context):
    process(event, context)
    if (HERE / "released").exists():
        (HERE / "ended").touch()


fence = replace(fence, work=slow_work)
"""


class Example(Deployed):
    """The example, deployed with a function that waits."""

    def __init__(self, local: LocalAws, folder: Path) -> None:
        self.folder = copytree(EXAMPLE, folder / "fence_alone")
        code, template = self.folder / "app.py", self.folder / "template.yaml"
        slow = SLOW.format(folder=str(self.folder))
        code.write_text(code.read_text(encoding="utf-8") + slow, encoding="utf-8")
        # However busy the machine is, the function that waits has the time to do so.
        edit(template, {"Timeout: 30": "Timeout: 900"})
        super().__init__(local, "fenced", template)
        self.objects = self.deployed["ObjectsBucketName"]

    def put(self, key: str, content: bytes) -> None:
        self.s3.put_object(Bucket=self.objects, Key=key, Body=content)

    def output(self, key: str) -> Colour | None:
        content = read_object(self.s3, self.deployed["OutputsBucketName"], output_key(key))
        return None if content is None else colour_of(content)


@pytest.fixture(scope="module")
def fenced(strict: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Example:
    return Example(strict, tmp_path_factory.mktemp("fenced"))


def test_a_slow_function_replaces_no_newer_output(fenced: Example) -> None:
    fenced.put("x.png", picture(RED) + b"slow")
    wait_until((fenced.folder / "reading").exists, SECONDS, "the slow picture to be read")
    fenced.put("x.png", picture(GREEN))
    wait_until(lambda: fenced.output("x.png") == MAGENTA, SECONDS, "the newer output")
    (fenced.folder / "released").touch()
    wait_until((fenced.folder / "ended").exists, SECONDS, "the slow function")
    assert fenced.output("x.png") == MAGENTA
    assert fenced.received(fenced.deployed["FailedEventsUrl"]) == []


def test_a_deletion_removes_the_output(fenced: Example) -> None:
    fenced.put("deleted.png", picture(RED))
    wait_until(lambda: fenced.output("deleted.png") == CYAN, SECONDS, "the output")
    fenced.s3.delete_object(Bucket=fenced.objects, Key="deleted.png")
    wait_until(lambda: not fenced.output("deleted.png"), SECONDS, "the output to be removed")


def test_what_fails_three_times_waits_for_a_person(fenced: Example) -> None:
    """The local EventBridge does not let Lambda try again, so the test invokes the function."""
    event = upload(fenced.s3, "no picture", b"no picture", bucket=fenced.objects)
    fenced.invoke(fenced.deployed["FunctionName"], event, "Event")
    message = json.loads(fenced.receive(fenced.deployed["FailedEventsUrl"]))
    assert message["requestPayload"] == event
    assert "The object is no picture" in message["responsePayload"]["errorMessage"]
