"""Each scenario passes the same states with the same data on moto and on ministack."""

from __future__ import annotations

from functools import cache

import pytest

from tests.engines.conftest import Ministack
from tests.engines.scenarios import RUNS, Place, Story, run
from tests.in_process import INPUT, OUTPUT, InProcess


class Moto(Place):
    """moto, in this process."""

    input_bucket, output_bucket = INPUT, OUTPUT

    def __init__(self, aws: InProcess) -> None:
        aws.wait_scale = 0.01
        self.s3, self.table = aws.s3, aws.table
        self.machine = cache(aws.machine)


@pytest.mark.parametrize(("story", "policy"), RUNS)
def test_a_scenario_is_the_same_on_moto_and_ministack(
    story: Story, policy: str, ministack: Ministack, aws: InProcess
) -> None:
    on_ministack = run(ministack, story, policy)
    assert on_ministack
    assert run(Moto(aws), story, policy) == on_ministack
