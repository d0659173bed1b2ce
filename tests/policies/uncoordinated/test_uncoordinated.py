"""What uncoordinated.asl.json is for: to show what goes wrong."""

from __future__ import annotations

import pytest

from tests.conftest import colour_of, picture
from tests.in_process import OUTPUT, InProcess
from tests.policies.situations import GREEN, MAGENTA, RED

pytestmark = pytest.mark.policy("uncoordinated")


def test_an_older_event_overwrites_any_output(aws: InProcess) -> None:
    older, newer = aws.upload("x.png", picture(RED)), aws.upload("x.png", picture(GREEN))
    assert aws.run(newer).outcome == "Processed"
    aws.s3.put_object(Bucket=OUTPUT, Key="out-x.png", Body=b"of another application")
    assert aws.run(older).outcome == "Processed"
    assert colour_of(aws.output("out-x.png")) == MAGENTA
