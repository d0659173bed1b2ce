"""The demonstration's parts that need no stack: outputs, costs, how many executions run at once."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from inorder.aws.executions import LocalStateMachine
from inorder.aws.stack import Stack
from inorder.demo import deployed as deployed_demo
from inorder.demo import run as demo
from inorder.demo.deployed import estimate
from inorder.demo.pictures import PicturePair, own_pairs
from inorder.demo.run import _inverse, choices, shows
from inorder.errors import Failure
from inorder.model.policies import policy

JPEG, PNG, GIF, WEBP = own_pairs(4)


def encoded_otherwise(content: bytes) -> bytes:
    """Encode a picture with other settings, as another processor's encoder may."""
    file = BytesIO()
    with Image.open(BytesIO(content)) as picture:
        picture.save(file, picture.format, quality=70, compress_level=1)
    assert file.getvalue() != content
    return file.getvalue()


def test_an_output_is_known_by_its_colours_if_its_bytes_differ() -> None:
    for pair in (JPEG, PNG, WEBP):
        output = encoded_otherwise(_inverse(pair.new))
        assert shows(output, pair.new)
        assert not shows(output, pair.old)
    assert shows(_inverse(GIF.new) + b"stamp", GIF.new)
    part = BytesIO()
    with Image.open(BytesIO(_inverse(PNG.new))) as picture:
        picture.crop((0, 0, 24, 18)).save(part, "PNG")
    for output in (b"", b"no picture", part.getvalue(), _inverse(JPEG.new)):
        assert not shows(output, PNG.new)


def test_the_requests_of_each_kind_are_counted_and_a_hundred_keys_cost_a_few_cents() -> None:
    numbers = [number for number, _ in estimate(10, policy("latest-wins"), 1769)]
    assert numbers == [60, 130, 40, 60, 40, 140, 60]
    numbers = [number for number, _ in estimate(10, policy("first-wins"), 1769)]
    assert numbers[2:4] == [20, 40]  # it ignores deletions, which cost nothing then
    for name in (*choices(), "uncoordinated"):
        cheap, dear = (
            sum(number * price.dollars for number, price in estimate(100, policy(name), memory))
            for memory in (1769, 10240)
        )
        assert 0.01 < cheap < dear < 0.2, name


def test_a_traced_execution_costs_a_trace_more() -> None:
    without, traced = (estimate(10, policy("latest-wins"), 1769, on) for on in (False, True))
    [(one, other)] = [
        (one, other) for (_, one), (_, other) in zip(traced, without, strict=True) if one != other
    ]
    assert one.dollars - other.dollars == pytest.approx(5e-6)
    assert one.unit == f"{other.unit} and a trace"


def test_a_stack_without_known_pictures_is_refused() -> None:
    complaints: list[tuple[dict[str, str], str]] = [
        ({"Policy": "latest-wins", "WorkFunctionArn": "arn"}, "function of its own"),
        ({"Policy": "mine"}, "the policy 'mine', unknown here"),
        ({}, "the policy '', unknown here"),
        ({"Policy": "content-hash"}, "makes no pictures"),
    ]
    for parameters, complaint in complaints:
        stack = Stack("name", "in", "out", "table", "arn", "url", "function", parameters)
        with pytest.raises(Failure, match=complaint):
            deployed_demo.policy_of(stack)


class OneAfterTheOther(LocalStateMachine):
    """An execution ends whenever somebody asks which are running. It is the S3 client, too."""

    def __init__(self, uploads: int) -> None:
        super().__init__(client=None, arn="arn")
        self.uploads = uploads  # after which the events arrive
        self.uploaded: list[str] = []
        self.contents: list[bytes] = []
        self.delivered: list[str] = []
        self.active: list[str] = []
        self.active_at_starts: list[int] = []

    def put_object(self, **parameters: Any) -> None:
        self.uploaded.append(parameters["Key"])
        self.contents.append(parameters["Body"])
        self.active.append(parameters["Key"])

    def arrived(self, prefix: str = "") -> dict[str, list[Any]]:
        if len(self.uploaded) < self.uploads:
            return {}
        return {key: [key, key] for key in self.uploaded if key.startswith(prefix)}

    def arns(self, status: str | None = None) -> list[str]:
        assert status == "RUNNING"
        running = list(self.active)
        del self.active[:1]
        return running

    def start(self, event: Any) -> str:
        self.active_at_starts.append(len(self.active))
        self.delivered.append(event)
        self.active.append(event)
        return "arn"


@pytest.fixture(autouse=True)
def no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "GAP_SECONDS", 0)


def run_of(
    machine: OneAfterTheOther, pairs: list[PicturePair], at_once: int, **parameters: str
) -> demo.Run:
    stack = Stack("name", "in", "out", "table", "arn", "url", "function", parameters)
    return demo.Run(
        machine, stack, policy("uncoordinated"), machine, pairs, executions_at_once=at_once
    )


def test_an_event_is_delivered_again_only_if_few_executions_run() -> None:
    pairs = [JPEG, PNG, GIF, WEBP]
    machine = OneAfterTheOther(uploads=2 * len(pairs))
    run = run_of(machine, pairs, 2)
    run._deliver(lambda: None)
    assert run.expected == 4 * len(pairs)
    assert len(machine.active_at_starts) == 2 * len(pairs)
    assert max(machine.active_at_starts) < 2


@pytest.mark.parametrize(("mark", "slow"), [("slow", ["06", "12"]), ("", [])])
def test_the_old_picture_of_each_sixth_key_is_slow_and_its_events_come_again_first(
    mark: str, slow: list[str]
) -> None:
    pairs = [PicturePair(f"{number:02}", b"old", b"new") for number in range(1, 13)]
    machine = OneAfterTheOther(uploads=2 * len(pairs))
    run_of(machine, pairs, 99, SlowMark=mark)._deliver(lambda: None)
    uploaded = zip(machine.uploaded, machine.contents, strict=True)
    assert sorted(key for key, content in uploaded if content == b"oldslow") == slow
    assert machine.contents.count(b"new") == len(pairs)
    others = [pair.key for pair in pairs if pair.key not in slow]
    assert machine.delivered[::2] == slow + others


def test_keys_whose_events_do_not_arrive_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PATIENCE_SECONDS", 0)
    run = run_of(OneAfterTheOther(uploads=5), [PNG, GIF], 9)
    names = "gallery/picture-002.png, gallery/picture-003.gif"
    with pytest.raises(TimeoutError, match=f"^Waited 0 s for the two events of 2 keys: {names}.$"):
        run._deliver(lambda: None)
