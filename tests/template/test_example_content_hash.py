"""The template of examples/content_hash: times that must fit."""

import json

from inorder.asl.definition import EXPRESS_SECONDS
from inorder.asl.seconds import longest_execution
from tests.support.contents import EXAMPLE, app
from tests.template.deployed import Deployed

STACK = Deployed(file="examples/content_hash/template.yaml")
DEFINITION = json.loads((EXAMPLE / "content_hash.asl.json").read_text(encoding="utf-8"))


def test_a_batch_ends_before_the_functions_timeout_and_its_redelivery() -> None:
    config = app().states.meta.config
    assert longest_execution(DEFINITION) < config.read_timeout
    assert config.retries["total_max_attempts"] == 1
    timeout = STACK["Function"]["Timeout"]
    by_queue, by_stream = STACK["FunctionEvents"], STACK["FunctionRecords"]
    for source in (by_queue, by_stream):
        assert source["BatchSize"] * (config.connect_timeout + config.read_timeout) < timeout <= 300
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert STACK["Events"]["VisibilityTimeout"] >= 6 * timeout


def test_sources_deliver_for_longer_than_dead_executions_hold_content() -> None:
    assert app().DEAD_SECONDS > EXPRESS_SECONDS
    attempts = STACK["Events"]["RedrivePolicy"]["maxReceiveCount"]
    for_seconds = {
        attempts * STACK["Events"]["VisibilityTimeout"],
        STACK["FunctionRecords"]["MaximumRecordAgeInSeconds"],
    }
    assert min(for_seconds) > app().DEAD_SECONDS
    # Who delivers an event again must find its content remembered.
    assert max(for_seconds) < app().REMEMBERED_SECONDS
