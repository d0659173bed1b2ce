"""The policy content-hash as `sam deploy` deploys it: events of other sources are hashed."""

from __future__ import annotations

from collections import Counter

from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.stack.conftest import SECONDS, Workflow


def test_content_hash_processes_the_same_content_once(local: LocalAws) -> None:
    sources = {"Policy": "content-hash", "ContentSources": "com.example.orders"}
    workflow = Workflow(local, deploy(local, "content-hash", sources))
    for number, (source, kind, detail) in enumerate(
        [
            ("com.example.others", "OrderPaid", "{}"),
            ("com.example.orders", "OrderPaid", '{"order": 7, "lines": [{"a": 1.0, "b": 2}]}'),
            ("com.example.orders", "OrderPaid", '{"lines": [{"b": 2, "a": 1}], "order": 7}'),
            ("com.example.orders", "OrderShipped", '{"order": 7, "lines": [{"a": 1, "b": 2}]}'),
        ]
    ):
        entry = {"Source": source, "DetailType": kind, "Detail": detail}
        local.client("events").put_events(Entries=[entry])
        workflow.executions.wait_for(number, SECONDS)
    outcomes = Counter(each.outcome for each in workflow.executions.all())
    assert outcomes == {"Processed": 2, "Duplicate": 1}
    workflow.assert_quiet()
