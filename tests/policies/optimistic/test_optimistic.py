"""Each path through optimistic.asl.json, with the real handler."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest

from tests.conftest import colour_of, picture
from tests.in_process import InProcess
from tests.statemachine.situations import BLUE, GREEN, MAGENTA, RED, YELLOW

pytestmark = pytest.mark.policy("optimistic")


def test_an_event_takes_one_invocation_and_no_table(aws: InProcess) -> None:
    aws.lose_table()
    ended = aws.run(aws.upload("a/x.png", picture(GREEN)))
    assert ended.path == [
        "S3 Object Event?",
        "Prepare Event",
        "Invert Image",
        "Outcome?",
        "Processed",
        "Processed",
    ]
    assert ended.output["object_key"] == "input/a/x.png"
    assert colour_of(aws.output("a/out-x.png")) == MAGENTA


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_newest_wins_in_any_order(aws: InProcess, order: tuple[int, ...]) -> None:
    events = [aws.upload("x.png", picture(colour)) for colour in (RED, GREEN, BLUE)]
    outcomes = [aws.run(events[at]).outcome for at in order]
    assert outcomes == ["Processed" if at == 2 else "Superseded" for at in order]
    assert colour_of(aws.output("out-x.png")) == YELLOW


def test_a_duplicate_finds_its_own_output(aws: InProcess) -> None:
    event = aws.upload("x.png", picture(GREEN))
    assert [aws.run(event).outcome for _ in range(2)] == ["Processed", "Processed"]
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_of_five_at_once_the_newest_wins(aws: InProcess) -> None:
    events = [aws.upload("x.png", picture(RED)) for _ in range(4)]
    events.append(aws.upload("x.png", picture(GREEN)))
    arns = [aws.start(event) for event in events]
    assert Counter(aws.wait(arn).outcome for arn in arns) == {"Processed": 1, "Superseded": 4}
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_deletion_removes_the_output_and_a_late_creation_brings_none_back(
    aws: InProcess,
) -> None:
    creation = aws.upload("x.png", picture(RED))
    aws.run(creation)
    deletion = aws.delete("x.png")
    assert aws.run(deletion).outcome == "Processed"
    assert aws.outputs() == []
    assert aws.run(creation).outcome == "Superseded"
    assert aws.run(deletion).outcome == "Processed"
    assert aws.outputs() == []
    assert aws.run(aws.upload("x.png", picture(GREEN))).outcome == "Processed"
    assert aws.run(deletion).outcome == "Superseded"
    assert colour_of(aws.output("out-x.png")) == MAGENTA


def test_a_version_that_is_no_longer_current_is_superseded(aws: InProcess) -> None:
    aws.keep_versions()
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert [aws.run(each).outcome for each in (newer, older)] == ["Processed", "Superseded"]
    assert colour_of(aws.output("out-x.png")) == MAGENTA
