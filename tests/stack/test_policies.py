"""Each other policy as `sam deploy` deploys it: its rule, its resources and its promise, once.

tests/policies shows the promise of each policy in every case.
"""

from __future__ import annotations

from collections import Counter

from inorder.aws.stack import deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import BLUE, CYAN, GREEN, MAGENTA, RED, SECONDS, YELLOW, Workflow

INVERSES = {RED: CYAN, GREEN: MAGENTA, BLUE: YELLOW}


def changed(local: LocalAws, policy: str) -> Workflow:
    """Deploy a stack again with another policy."""
    return Workflow(local, deploy(local, "changing", {"Policy": policy}))


def test_each_policy_of_one_stack_keeps_its_promise(local: LocalAws) -> None:
    first = changed(local, "first-wins")
    for number, colour in enumerate((RED, GREEN), 1):
        first.upload("x.png", picture(colour))
        first.of_key("x.png", number)
    assert [each.outcome for each in first.of_key("x.png", 2)] == ["Processed", "Duplicate"]
    assert first.outputs() == {"out-x.png": CYAN}
    first.assert_quiet()

    every = changed(local, "every-version")
    for number, colour in enumerate(INVERSES, 1):
        every.upload("a/y.png", picture(colour))
        every.of_key("a/y.png", number)
    events = every.events("a/y.png", 3)
    assert {key: each for key, each in every.outputs().items() if key.startswith("a/")} == {
        f"a/out-y.png/{event['detail']['object']['sequencer']}": inverse
        for event, inverse in zip(events, INVERSES.values(), strict=True)
    }
    assert every.run(events[0]).outcome == "Duplicate"
    every.delete("a/y.png")
    assert every.of_key("a/y.png", 5)[-1].outcome == "Processed"
    assert every.outputs().keys() == {"out-x.png"}
    every.assert_quiet()


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
