"""`inorder cost` of a deployed stack: the local AWS has its resources, but no metrics."""

from __future__ import annotations

import pytest

from inorder.aws.stack import Connection
from inorder.aws.usage import measure
from tests.conftest import picture
from tests.end_to_end.conftest import RED, Workflow, inorder_on


def test_each_metric_of_a_deployed_stack_is_asked_for_but_a_local_one_has_no_bill(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    inorder = inorder_on(workflow, monkeypatch)
    workflow.upload("cost.png", picture(RED))
    workflow.of_key("cost.png", 1)
    measured = measure(Connection(workflow.stack.name), 1)
    assert measured.memory == 1769
    assert measured.used["alarms"] == 7
    asked = "\n".join(measured.silent)
    for name in (
        f"ExecutionsStarted of {workflow.stack.state_machine_arn}",
        f"ConsumedWriteCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"ConsumedReadCapacityUnits of {workflow.stack.key_table}, InProgress",
        f"IncomingBytes of /aws/vendedlogs/states/{workflow.stack.name}",
        f"NumberOfEmptyReceives of {workflow.stack.retry_events_queue_url.rsplit('/', 1)[-1]}",
        f"Invocations of {workflow.resource('HealKeysFunction')}",
    ):
        assert name in asked
    result = inorder("cost", "--stack-name", workflow.stack.name)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "A local AWS has no such metrics." in line
