"""A state machine of one's own as the work of stacks/long_work on a local AWS, and its trial."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from inorder.asl import check_file, language
from inorder.asl.definition import Json, parse
from inorder.aws.executions import StandardStateMachine, wait_until
from inorder.demo import long_work
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder.model.execution import Execution
from inorder.model.outcomes import WAITING
from inorder.trying.trial import PATIENCE_SECONDS, Sample, Say, Trial
from inorder.trying.verdict import Finding

STATELINT = {"language": language.FIELDS["language"]}
ASL = long_work.TEMPLATE.with_name("long_work.asl.json")
BEGIN = "Begin Of Trial"  # waits, so that there is time to stop work that takes none
LOCAL = "dynamodb|eventbridge|events|s3|sfn|sns|sqs|states"  # whose answers nobody else gives
IS_LOCAL = re.compile(rf"arn:aws:states:::(aws-sdk:)?({LOCAL}):(?!.*waitForTaskToken)")
BY_WORK = "RejectedByWork"
CONTRACT = "stacks/long_work/README.md has the contract of the work"


def read(file: Path) -> Json:
    """Read an ASL file; a Failure says why it cannot be tried."""
    if findings := check_file(file, [language.SCHEMA, STATELINT]):
        raise Failure("\n".join(f"{file}: {finding}" for finding in findings))
    definition: Json = parse(file.read_text(encoding="utf-8"))
    waiting = parse(ASL.read_text(encoding="utf-8"))["States"]["Work By State Machine"]
    if not definition.get("TimeoutSeconds", most := waiting["TimeoutSeconds"]) < most:
        raise Failure(f"{file}: it needs TimeoutSeconds, which are below {most}. {CONTRACT}.")
    for name, state in _tasks(definition):
        if not IS_LOCAL.match(resource := state["Resource"]):
            raise Failure(
                f"{file}: {name} is a Task on {resource}, which the local AWS does not have. To try"
                " the rest, let a task of S3 stand in for it, in a copy of the file."
            )
    return definition


def _tasks(definition: Json) -> Iterator[tuple[str, Json]]:
    for name, state in definition["States"].items():
        if state["Type"] == "Task":
            yield name, state
        inside = [state.get("ItemProcessor"), state.get("Iterator"), *state.get("Branches", [])]
        for each in filter(None, inside):
            yield from _tasks(each)


def _reason(execution: Execution) -> str:
    """Say why publish_result has refused what the work has left; "" if it has not."""
    if execution.error != "Rejected":
        return ""
    answer = json.loads(execution.cause)
    return f"{answer['error']}: {answer['cause']}"


class MachineTrial(Trial):
    """A trial of a state machine, of which only the fence publishes the results."""

    def __init__(self, definition: Json, local: LocalAws, journal: Path) -> None:
        wait = {"Type": "Wait", "Seconds": long_work.WORK_SECONDS, "Next": definition["StartAt"]}
        states = {BEGIN: wait, **definition["States"]}
        arn = long_work.create(local, definition | {"StartAt": BEGIN, "States": states})
        stack = long_work.deploy(local, "try", arn)
        super().__init__(local, stack.name, journal, definition["TimeoutSeconds"])
        self._works = StandardStateMachine(local.client("stepfunctions"), arn)

    def _faults(self, sample: Sample, say: Say) -> list[Finding]:
        """Let work fail that has begun, and stop an execution that waits for work."""
        say("Letting work fail, and stopping an execution ...")
        for how, machine in {"fails": self._works, "stopped": self.machine}.items():
            self._put(key := f"{how}/{sample.name}", sample.new)
            wait_until(lambda: bool(self._works.arns("RUNNING")), PATIENCE_SECONDS, "work to begin")
            if not (running := machine.arns("RUNNING")):
                raise TimeoutError(f"The work of {key} ended before it was stopped.")
            machine.stop(running[0])
            if (ended := self._settle(key)).outcome != "Processed":
                return [Finding("broken", f"{key}: the second attempt ended as {ended.ended_as}.")]
        return [Finding("kept", "Work that failed and work that was stopped was done once more.")]

    def _is_last(self, execution: Execution) -> bool:
        is_done = execution.status == "SUCCEEDED" and execution.outcome != WAITING
        return is_done or bool(_reason(execution))

    def _rejection(self, ended: Execution) -> str:
        return _reason(ended)

    def _answers(self) -> Finding:
        works = self._works.select()
        for each in works:
            if each.status == "FAILED":
                return Finding(
                    "broken",
                    f"{each.event['event']['detail']['object']['key']}: the work failed with"
                    f" {each.error}: {each.cause} Such an event is retried eight times: if no retry"
                    " can help, answer Rejected.",
                )
        for each in self.machine.all():
            if (said := _reason(each)) and not said.startswith(BY_WORK):
                return Finding("broken", f"{each.key}: its result is refused. {said} {CONTRACT}.")
        return Finding("kept", f"{len(works)} executions of the work kept the contract.")

    def _times(self) -> Finding:
        slowest = max(each.seconds or 0 for each in self._works.select()) - long_work.WORK_SECONDS
        return Finding("kept", f"The slowest work took {slowest:.1f} s of its {self._timeout} s.")
