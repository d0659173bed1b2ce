"""Where a story can happen: the engines, each with the resources of the template.

moto is in this process, and ministack a server of the tests. The environment must name the others:
`make test-node-engine` and `make test-sfn-local`.
"""

import json
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import playwright

from inorder.aws.executions import LocalStateMachine, StateMachine
from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.loopback import HOST
from tests.support.events import delete, upload
from tests.support.in_process import INPUT, OUTPUT, InProcess
from tests.support.state_machines import create_local

NODE = Path(playwright.__file__).parent / "driver" / "node"  # the one that the browser tests have


class Place:
    """Where a story happens."""

    input_bucket: str
    output_bucket: str
    s3: Any
    table: Any
    seconds = 60.0
    machine: Callable[[str], StateMachine]  # gives a policy's

    def outcome(self, policy: str, event: Any) -> str | None:
        """Run an execution of a policy's state machine, and give its outcome."""
        return self.machine(policy).run(event, self.seconds).outcome

    def change(self, key: str, content: bytes | None, sequencer: str) -> dict[str, Any]:
        """Put an object, or delete it if there is no content, and build its event."""
        described: Any = {"bucket": self.input_bucket, "sequencer": sequencer}
        if content is None:
            return delete(self.s3, key, **described)
        return upload(self.s3, key, content, **described)

    def outputs(self, key: str) -> list[bytes]:
        named = {"Bucket": self.output_bucket}
        listed = self.s3.list_objects_v2(Prefix=f"out-{key}", **named).get("Contents", [])
        return [self.s3.get_object(Key=entry["Key"], **named)["Body"].read() for entry in listed]


class Moto(Place):
    """moto, in this process."""

    input_bucket, output_bucket = INPUT, OUTPUT

    def __init__(self, aws: InProcess) -> None:
        aws.wait_scale = 0.01
        self.s3, self.table, self.machine = aws.s3, aws.table, cache(aws.machine)


class Ministack(Place):
    """ministack with a deployed stack, whose rule starts nothing because it is disabled."""

    def __init__(self, local: LocalAws) -> None:
        stack = deploy(local, "engines", {})
        rule = local.client("cloudformation").describe_stack_resource(
            StackName=stack.name, LogicalResourceId="EventsRule"
        )
        local.client("events").disable_rule(Name=rule["StackResourceDetail"]["PhysicalResourceId"])
        self.s3, self.states = local.client("s3"), local.client("stepfunctions")
        self.input_bucket, self.output_bucket = stack.input_bucket, stack.output_bucket
        resources = local.session.resource("dynamodb", endpoint_url=local.endpoint_url)
        self.table = resources.Table(stack.key_table)
        self._stack_arn = stack.state_machine_arn.rpartition("_")[0]
        self.machine = cache(self.create)

    def create(self, policy: str) -> StateMachine:
        return LocalStateMachine(self.states, self.arn(policy))

    def arn(self, policy: str) -> str:
        """Name a state machine of the stack, which has all policies."""
        return f"{self._stack_arn}_{policy}"


class NodeEngine(Ministack):
    """aws-local-stepfunctions, with the resources of the template on the local AWS."""

    seconds = 300  # its waits take their time

    def __init__(self, local: LocalAws, packages: str) -> None:
        super().__init__(local)
        self._environment = os.environ | local.environment | {"NODE_PATH": packages}

    def outcome(self, policy: str, event: Any) -> str | None:
        """Run an execution in a process of its own."""
        arn = self.arn(policy)
        described = self.states.describe_state_machine(stateMachineArn=arn)
        definition = json.loads(described["definition"])
        for state in definition["States"].values():
            # The engine takes an intrinsic function for a path, and fails.
            if state.get("CausePath", "").startswith("States."):
                state["Cause"] = state.pop("CausePath")
        done = subprocess.run(  # noqa: S603 - a program of this environment
            [NODE, Path(__file__).with_name("node_engine.cjs")],
            env=self._environment,
            input=json.dumps({"arn": arn, "definition": definition, "input": event}),
            stdout=subprocess.PIPE,
            text=True,
            timeout=self.seconds,
            check=True,
        )
        outcome: str | None = json.loads(done.stdout).get("outcome")
        return outcome


class StepFunctionsLocal(Ministack):
    """Step Functions Local, with the resources of the template on the local AWS behind it."""

    seconds = 300  # delays between attempts are not scaled there

    def __init__(self, endpoint: str, behind: str) -> None:
        super().__init__(_running_at(behind))
        self._local = _running_at(endpoint).client("stepfunctions")

    def create(self, policy: str) -> StateMachine:
        deployed = self.states.describe_state_machine(stateMachineArn=self.arn(policy))
        return self.named(policy, deployed["definition"])

    def named(self, name: str, definition: str) -> LocalStateMachine:
        """Create a state machine, or update the one of earlier tests."""
        pages = self._local.get_paginator("list_state_machines").paginate()
        machines = {machine["name"]: machine for page in pages for machine in page["stateMachines"]}
        if name not in machines:
            return create_local(self._local, definition, "STANDARD", name)
        arn = machines[name]["stateMachineArn"]
        self._local.update_state_machine(stateMachineArn=arn, definition=definition)
        return LocalStateMachine(self._local, arn)


def _running_at(address: str) -> LocalAws:
    """Give a server that was not started here."""
    url = urlsplit(address)
    assert url.hostname == HOST
    return LocalAws(url.port or 0, pid=0, started=0, folder="")
