"""The handler of the function that inverts images: what it answers, logs and counts."""

import time

import pytest

from tests.conftest import picture
from tests.support.in_process import InProcess, import_anew
from tests.support.resolved_template import template
from tests.unit.conftest import Lines, print_lines_of
from tests.unit.test_image_files import read_strictly

RED = picture((255, 0, 0))


@pytest.fixture(autouse=True)
def printing(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    print_lines_of(aws.app.logger, monkeypatch)


def test_image_is_processed_logged_and_counted(aws: InProcess, lines: Lines) -> None:
    aws.keep_versions()
    name = 'x"\n{"level":"ERROR"}.png'
    event = aws.upload(f"a/{name}", RED)
    ended = aws.run(event)
    answer = ended.steps[-3].output["inversion"]["Payload"]  # before its release and its end
    expires_at = int(answer.pop("expires_at"))
    assert answer == {"outcome": "Processed", "output_key": f"a/out-{name}"}
    assert expires_at == pytest.approx(time.time() + 7 * 86_400, abs=60)
    read_strictly(aws.output(f"a/out-{name}"))
    log, metric = lines()  # the line break of the key would have made a third line
    assert (log["message"], log["source_key"]) == ("Processed", f"a/{name}")
    assert (log["output_key"], log["execution"]) == (answer["output_key"], ended.arn)
    described = event["detail"]["object"]
    assert (log["sequencer"], log["version_id"]) == (
        described["sequencer"],
        described["version-id"],
    )
    assert metric["Processed"] == [1.0]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("content", "error", "cause"),
    [
        (b"not an image", "InvalidImage", "The file is text."),
        (b"x" * 100_001, "InvalidSource", "100000 bytes"),
        (RED, "InvalidImage", "256 pixels"),
    ],
    ids=["format", "bytes", "pixels"],
)
def test_rejection_is_answered_logged_and_counted(
    aws: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    lines: Lines,
    content: bytes,
    error: str,
    cause: str,
) -> None:
    monkeypatch.setattr(aws.app, "MAXIMUM_PIXELS", 255)
    event = aws.upload("x.png", content)
    event["detail"]["object"]["version-id"] = ""  # of a bucket without versions
    answer = aws.handle({"event": event, "fence": "newest"})
    assert answer.keys() == {"outcome", "error", "cause", "expires_at"}
    assert (answer["outcome"], answer["error"]) == ("Rejected", error)
    assert cause in answer["cause"]
    assert aws.outputs() == []
    log, metric = lines()
    assert (log["level"], log["cause"]) == ("WARNING", answer["cause"])
    assert "version_id" not in log
    assert metric[error] == [1.0]


def test_the_attempts_of_a_call_fit_into_the_functions_timeout(aws: InProcess) -> None:
    timeout = template()["Resources"]["InvertImageFunction"]["Properties"]["Timeout"]
    settings = aws.app.s3.meta.config
    assert settings.retries["mode"] == "standard"
    number = settings.retries["total_max_attempts"]
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
    longest_pauses = sum(2**retry for retry in range(number - 1))
    for seconds in (settings.connect_timeout, settings.read_timeout):
        assert number * seconds + longest_pauses <= timeout  # so the fault names S3


@pytest.mark.parametrize(
    ("end", "mark", "naps"), [("", "", 1), ("", "slow", 0), ("slow", "slow", 1)]
)
def test_demonstration_can_slow_all_or_marked_objects_down(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch, end: str, mark: str, naps: int
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(aws.app, "SLOW_MARK", mark.encode())
    monkeypatch.setattr(aws.app, "SLOW_SECONDS", 7.5)
    monkeypatch.setattr(aws.app.time, "sleep", slept.append)
    event = aws.upload("x.png", RED + end.encode())
    assert aws.handle({"event": event, "fence": "newest"})["outcome"] == "Processed"
    assert slept.count(7.5) == naps


@pytest.mark.parametrize("value", ["true", "false"])
def test_deletions_are_handled_if_the_setting_says_so(
    aws: InProcess, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    assert aws.app.fence.handles_deletions
    monkeypatch.setenv("HANDLES_DELETIONS", value)
    assert import_anew("invert_image.app").fence.handles_deletions is (value == "true")
