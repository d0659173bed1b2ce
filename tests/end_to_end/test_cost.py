"""`inorder cost` of a deployed stack: the local AWS has its resources, but no metrics."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from inorder import cli
from inorder.aws.stack import Connection
from inorder.aws.usage import measure
from tests.conftest import picture
from tests.end_to_end.conftest import RED, Workflow


@pytest.fixture
def environment(workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in workflow.local.environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
def test_each_metric_of_a_deployed_stack_is_asked_for(workflow: Workflow) -> None:
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


@pytest.mark.usefixtures("environment")
def test_a_stack_on_the_local_aws_has_no_bill(workflow: Workflow) -> None:
    arguments = ["cost", "--stack-name", workflow.stack.name]
    result = CliRunner(mix_stderr=False).invoke(cli.main, arguments)
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "A local AWS has no such metrics." in line
