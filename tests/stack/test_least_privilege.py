"""The functions' roles suffice on a local AWS that enforces them, and what is denied is refused.

ministack enforces the roles of functions and the policies of buckets and queues, but no state
machine's role. `test_roles` has all actions of every role. Three differences from AWS matter here:

- Functions call it over plain HTTP, which TLS-only policies refuse. So the tests run without the
  policies of the buckets and queues, which `test_roles` has, too.
- For a missing key it answers 404 even without ``s3:ListBucket``, where AWS answers 403. So the
  tests cannot show that the action is needed.
- The function's log is written without its role, and the trailing ``:*`` of a log group's ARN does
  not match the group itself. `test_roles` checks the two actions.
"""

import pytest

from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from inorder.model.execution import Execution
from tests.conftest import picture
from tests.stack.conftest import GREEN, MAGENTA, RED, Colour, Workflow


@pytest.fixture(scope="module")
def workflow(strict: LocalAws) -> Workflow:
    workflow = Workflow(strict, deploy(strict, "least", {}))
    workflow.allow_plain_http()
    return workflow


def uploaded(
    workflow: Workflow, key: str, colour: Colour = RED, is_retried: bool = False
) -> Execution:
    """Upload a picture and give its execution, once it has ended."""
    earlier = len(workflow.events(key, 0))
    workflow.upload(key, picture(colour))
    return workflow.of_key(key, earlier + 1, is_retried)[-1]


def test_the_role_suffices_to_write_replace_and_remove_an_output(workflow: Workflow) -> None:
    assert uploaded(workflow, "one.png").outcome == "Processed"
    assert uploaded(workflow, "one.png", GREEN).outcome == "Processed"
    assert workflow.colour("one.png") == MAGENTA
    workflow.s3.delete_object(Bucket=workflow.stack.output_bucket, Key="out-one.png")
    assert uploaded(workflow, "one.png", GREEN).outcome == "Processed"
    assert workflow.output("one.png")
    event = workflow.events("one.png", 3)[-1]
    workflow.delete("one.png")
    assert workflow.of_key("one.png", 4)[-1].outcome == "Processed"
    assert workflow.output("one.png") is None
    # The record is the deletion's. Without it, the function finds that there is no object.
    workflow.table.delete_item(Key={"id": workflow.record_id("one.png")})
    assert workflow.run(event).outcome == "Superseded"
    assert workflow.parked() == []


def test_an_event_waits_until_the_role_has_a_missing_action(workflow: Workflow) -> None:
    objects = f"arn:aws:s3:::{workflow.stack.output_bucket}/*"
    with workflow.denied("s3:PutObject", objects):
        failed = uploaded(workflow, "put.png", is_retried=True)
        assert failed.outcome == "Retrying"
        refused = "(AccessDenied) when calling the PutObject operation"
        assert refused in failed.output["reason"]["Cause"]
        assert workflow.output("put.png") is None
    workflow.wait_for_retries()
    assert "Processed" in [execution.outcome for execution in workflow.of_key("put.png", 1)]
    assert workflow.output("put.png")
    assert workflow.parked() == []


def test_the_role_suffices_to_park_an_event(workflow: Workflow) -> None:
    sqs, stack = workflow.local.client("sqs"), workflow.stack
    message = {"QueueUrl": stack.retry_events_queue_url, "MessageBody": "of no state machine"}
    sqs.send_message(**message)
    assert workflow.receive(stack.parked_events_queue_url) == message["MessageBody"]


def test_the_role_suffices_to_hand_over_a_dead_executions_event(workflow: Workflow) -> None:
    event, record_id = uploaded(workflow, "stuck.png").event, workflow.record_id("stuck.png")
    workflow.table.update_item(  # as if its execution had died
        Key={"id": record_id},
        UpdateExpression="SET #status = :status, in_progress_since = :since",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":status": "IN_PROGRESS", ":since": "x"},
    )
    workflow.age(record_id)
    assert workflow.sweep() == ""
    again = workflow.of_key("stuck.png", 2)
    retried = [execution.event for execution in again if "retry" in execution.event]
    assert [event["detail"] for event in retried] == [event["detail"]]
    assert "in_progress_since" not in workflow.record("stuck.png")
