"""The handler of the function that inverts images: what it answers, logs and counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inorder.resolved_template import template
from inorder_fence.fenced_output import ATTEMPTS, S3_CONFIG
from invert_image.configuration import Configuration
from tests.conftest import picture
from tests.in_process import ENVIRONMENT, InProcess
from tests.unit.conftest import Lines
from tests.unit.test_bounded_work import bomb


def payload(event: dict[str, Any], fence: str = "newest") -> dict[str, Any]:
    return {"event": event, "fence": fence}


@pytest.fixture
def lines(aws: InProcess, printed_by: Callable[[Any], Lines]) -> Lines:
    return printed_by(aws.app.logger)


def test_image_is_processed_logged_and_counted(aws: InProcess, lines: Lines) -> None:
    name = 'x"\n{"level":"ERROR"}.png'
    event = aws.upload(f"a/{name}", picture((255, 0, 0)))
    answer = aws.handle(payload(event))
    expires_at = int(answer.pop("expires_at"))
    assert answer == {"outcome": "Processed", "output_key": f"a/out-{name}"}
    assert expires_at == pytest.approx(time.time() + 7 * 86_400, abs=60)
    log, metric = lines()  # the line break of the key would have made a third line
    assert log["message"] == "Processed"
    assert log["source_key"] == f"a/{name}"
    assert log["sequencer"] == event["detail"]["object"]["sequencer"]
    assert metric["Processed"] == [1.0]


def test_invalid_image_is_an_answer_and_not_raised(aws: InProcess, lines: Lines) -> None:
    answer = aws.handle(payload(aws.upload("x.png", b"not an image")))
    assert answer.keys() == {"outcome", "error", "cause", "expires_at"}
    assert (answer["outcome"], answer["error"]) == ("Rejected", "InvalidImage")
    assert answer["cause"]
    log, metric = lines()
    assert log["level"] == "WARNING"
    assert log["cause"] == answer["cause"]
    assert metric["InvalidImage"] == [1.0]


@pytest.mark.parametrize(
    ("limit", "content", "error", "cause"),
    [
        ({}, b"x" * 100_001, "InvalidSource", "100000 bytes"),
        ({"MAXIMUM_PIXELS": "255"}, picture((255, 0, 0)), "InvalidImage", "256 pixels"),
    ],
    ids=["bytes", "pixels"],
)
def test_object_over_a_limit_is_rejected(
    aws: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    limit: dict[str, str],
    content: bytes,
    error: str,
    cause: str,
) -> None:
    small = Configuration.from_environment(ENVIRONMENT | limit)
    monkeypatch.setattr(aws.app, "configuration", small)
    answer = aws.handle(payload(aws.upload("x.png", content)))
    assert (answer["outcome"], answer["error"]) == ("Rejected", error)
    assert cause in answer["cause"]


def test_image_that_takes_too_long_is_rejected(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setattr(aws.app, "WORK_SECONDS", 0.1)
    slow = Configuration.from_environment(
        ENVIRONMENT | {"MAXIMUM_PIXELS": "10000000", "SLOW_SECONDS": "0.2"}  # are not the work's
    )
    monkeypatch.setattr(aws.app, "configuration", slow)
    answer = aws.handle(payload(aws.upload("x.jpg", bomb("JPEG"))))
    assert (answer["outcome"], answer["error"]) == ("Rejected", "TooSlow")
    assert aws.outputs() == []
    assert lines()[1]["TooSlow"] == [1.0]


def test_the_seconds_of_work_and_of_s3_fit_into_the_functions_timeout(aws: InProcess) -> None:
    timeout = template()["Resources"]["InvertImageFunction"]["Properties"]["Timeout"]
    settings: Any = S3_CONFIG
    answer = settings.read_timeout
    attempt = settings.connect_timeout + answer
    number = settings.retries["total_max_attempts"]
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
    longest_pauses = sum(2**retry for retry in range(number - 1))
    assert number * answer + longest_pauses <= timeout  # so the fault names S3
    assert aws.app.WORK_SECONDS + attempt <= timeout
    contended = sum(0.1 * attempt for attempt in range(ATTEMPTS))
    assert aws.app.WORK_SECONDS + contended + answer <= timeout


@pytest.mark.parametrize(
    ("fence", "answer"),
    [
        ("newest", {"outcome": "Superseded"}),
        ("none", {"outcome": "Processed"}),
        ("each", {"outcome": "Rejected", "error": "SourceChanged"}),
    ],
)
def test_each_fence_gives_the_event_of_an_overwritten_source_another_outcome(
    aws: InProcess, lines: Lines, fence: str, answer: dict[str, str]
) -> None:
    older = aws.upload("x.png", picture((255, 0, 0)))
    aws.upload("x.png", picture((0, 255, 0)))
    assert answer.items() <= aws.handle(payload(older, fence)).items()
    _, metric = lines()
    assert metric[answer.get("error", answer["outcome"])] == [1.0]


def test_deletion_is_answered_like_a_creation(aws: InProcess) -> None:
    aws.handle(payload(aws.upload("x.png", picture((255, 0, 0)))))
    answer = aws.handle(payload(aws.delete("x.png")))
    assert int(answer.pop("expires_at")) == pytest.approx(time.time() + 7 * 86_400, abs=60)
    assert answer == {"outcome": "Processed", "output_key": "out-x.png"}
    assert aws.outputs() == []


def test_faults_are_raised(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    event = aws.upload("x.png", picture((255, 0, 0)))
    with pytest.raises(KeyError, match="newst"):
        aws.handle(payload(event, "newst"))
    lost = replace(aws.app.fence, output_bucket="no-such-bucket")
    monkeypatch.setattr(aws.app, "fence", lost)
    with pytest.raises(aws.s3.exceptions.ClientError, match="NoSuchBucket"):
        aws.handle(payload(event))


@pytest.mark.parametrize(
    ("end", "mark", "naps"), [("", "", 1), ("", "slow", 0), ("slow", "slow", 1)]
)
def test_demonstration_can_slow_all_or_marked_objects_down(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch, end: str, mark: str, naps: int
) -> None:
    slow = Configuration.from_environment(ENVIRONMENT | {"SLOW_MARK": mark, "SLOW_SECONDS": "7.5"})
    slept: list[float] = []
    monkeypatch.setattr(aws.app, "configuration", slow)
    monkeypatch.setattr(aws.app.time, "sleep", slept.append)
    answer = aws.handle(payload(aws.upload("x.png", picture((255, 0, 0)) + end.encode())))
    assert answer["outcome"] == "Processed"
    assert slept.count(7.5) == naps


def test_settings_are_read_from_the_environment_and_a_missing_one_is_named() -> None:
    for value in ("true", "false"):
        configuration = Configuration.from_environment(ENVIRONMENT | {"HANDLES_DELETIONS": value})
        assert configuration.handles_deletions is (value == "true")
    for name in ("OUTPUT_BUCKET", "HANDLES_DELETIONS", "SLOW_SECONDS"):
        environment = {key: value for key, value in ENVIRONMENT.items() if key != name}
        with pytest.raises(KeyError, match=name):
            Configuration.from_environment(environment)
