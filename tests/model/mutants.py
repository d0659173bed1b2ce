"""Negative controls: latest_wins without one thing, which the explorer must find out.

`mutants_of` makes most; by hand are clauses of DynamoDB's expressions and of the function's fence.
"""

from __future__ import annotations

import json

from tests.model.engine import FUNCTION, Engine
from tests.model.explorer import Promise, Result, Scenario, explore, shortest
from tests.model.latest_wins import LatestWins
from tests.model.mutation import Mutant, mutants_of

STATES_AT_MOST = 5_000
FAILED, TIMEOUT, THROTTLED = (
    *("States.TaskFailed", "States.Timeout"),
    "Lambda.TooManyRequestsException",
)
# No event: something is absent, or of a wrong type. A version need not be there.
DAMAGED = tuple(
    Scenario((1,), damaged=damaged)
    for damaged in (
        *("detail-type", "detail", "detail.bucket", "detail.bucket.name", "detail.object"),
        *("detail.object.key", "detail.object.etag", "detail.object.sequencer"),
        *("detail-type=5", 'detail-type="Object Deleted"', "detail.bucket.name=5"),
        *("detail.object.key=5", "detail.object.etag=5", "detail.object.sequencer=5"),
        *('detail.object.sequencer=""', "detail.object.version-id=null"),
        "detail.object.version-id=5",
    )
)
# What is small, and shows a clause that nothing else does.
EDGES = (
    *DAMAGED,
    Scenario((1,), damaged="detail.object.key", faults=1),
    Scenario((1,), damaged="detail.object.key", transient=(TIMEOUT,)),
    Scenario((1,), damaged="detail.object.key", transient=(FAILED,)),
    Scenario((1,), item='{"status": {"S": "DONE"}}'),
    Scenario((1,), item='{"newest": {"S": "01"}}'),
    Scenario((1,), item='{"lock_token": {"S": "left behind"}}'),
    Scenario((1,), transient=(THROTTLED,) * 4),
    Scenario((1,), contents="a", transient=(TIMEOUT,)),
    Scenario((1,), contents="a", crashes=1),
    Scenario((1, 2), crashes=1, transient=(FAILED,)),
    Scenario((1, 2), crashes=1, transient=(TIMEOUT,)),
    Scenario((1, 1), faults=1, odd=True),
    Scenario((1,), contents="a", faults=1, odd=True),
)
# Those whose whole paths are searched, for one that does not end.
WHOLE = (
    *(Scenario((1, 1)), Scenario((1, 2))),
    *(Scenario(events, crashes=1, breaks=1) for events in ((1, 1), (1, 2))),
)
SCENARIOS = (
    *(Scenario((1,)), Scenario((1,), contents="a")),
    *WHOLE,
    *EDGES,
    Scenario((1, 1), contents="a", crashes=1),
    Scenario((1, 2), contents="Ab", breaks=1),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    Scenario((1, 2), versioned=True, crashes=1, breaks=1),
    Scenario((1, 2), versioned=True, contents="AA", crashes=1, breaks=1),
    Scenario((1, 2), contents="AA", crashes=1, breaks=1),
    *(Scenario(events, faults=1) for events in ((1, 1), (1, 2))),
    *(Scenario(events, crashes=1, restarts=1) for events in ((1, 1), (1, 2))),
    *(Scenario((1, 2, 2)), Scenario((1, 1, 2))),
    Scenario((1, 2, 3), breaks=1),
    Scenario((1, 2, 2), crashes=1, breaks=1),
)

FENCE = "fenced_output.py"
# where, what is missing, text, its replacement. A clause becomes one of the same names and values
# that is always true or never, as DynamoDB refuses those that nothing uses.
CLAUSES: tuple[tuple[str, str, str, str], ...] = (
    ("Claim Key", "no item", "attribute_not_exists(object_key)", "object_key = :done"),
    ("Claim Key", "nothing newer seen", "newest <= :sequencer", "object_key <> :sequencer"),
    ("Claim Key", "or it is mine", "execution = :execution", "object_key = :execution"),
    (
        "Claim Key",
        "unlocked",
        "attribute_not_exists(lock_token)",
        "attribute_exists(object_key)",
    ),
    ("Claim Key", "newer than claimed", "(sequencer < :sequencer", "(object_key = :sequencer"),
    ("Claim Key", "not done", "#status <> :done", "object_key <> :done"),
    ("Claim Key", "writes newest", '"newest":', '"unused":'),
    ("Claim Key", "writes sequencer", '"sequencer": {"S.$": "$.sequencer"}, ', ""),
    ("Claim Key", "writes execution", '"execution":', '"unused":'),
    ("Claim Key", "writes event", '"event":', '"unused":'),
    ("Claim Key", "writes lock_token", '"lock_token":', '"unused":'),
    ("Record Sequencer", "if newer", "newest < :sequencer", "object_key <> :sequencer"),
    ("Record Sequencer", "writes newest", "SET newest =", "SET unused ="),
    ("Record Sequencer", "writes newest_event", "newest_event =", "unused ="),
    ("Break Lock", "if still the watched", "lock_token = :watched", "object_key <> :watched"),
    ("Record Sequencer", "stays", "expires_at = :never", "ignored = :never"),
    ("Break Lock", "removes the token", "REMOVE lock_token, execution", "REMOVE execution"),
    ("Break Lock", "removes the execution", "REMOVE lock_token, execution", "REMOVE lock_token"),
    ("Release Lock", "if mine", "lock_token = :lock_token", "object_key <> :lock_token"),
    ("Release Lock", "removes the token", "REMOVE lock_token, execution", "REMOVE execution"),
    ("Release Lock", "removes the execution", "REMOVE lock_token, execution", "REMOVE lock_token"),
    (
        "Release Lock",
        "stays",
        "if_not_exists(expires_at, :expires_at)",
        "if_not_exists(ignored, :expires_at)",
    ),
    ("Release Lock", "marks as done", '":done": {"S": "DONE"}', '":done": {"S": "FREE"}'),
    ("Fail Key", "if mine", "lock_token = :lock_token", "object_key <> :lock_token"),
    ("Fail Key", "removes the token", "REMOVE lock_token, execution", "REMOVE execution"),
    ("Fail Key", "removes the execution", "REMOVE lock_token, execution", "REMOVE lock_token"),
    ("Fail Key", "failed is not done", '"S": "FAILED"', '"S": "DONE"'),
    (FENCE, "1: the sequencer", "if order >= 0:", "if False:"),
    (FENCE, "1: the same", "if order >= 0:", "if order > 0:"),
    (FENCE, "1: a newer", "if order >= 0:", "if order == 0:"),
    (
        FENCE,
        "1: not between versions",
        'metadata.get("source-version-id") == source.version_id',
        "True",
    ),
    (FENCE, "2: If-Match", """{"IfMatch": f'"{source.etag}"'})""", "{})"),
    (FENCE, "2: the version", "if source.version_id and response", "if False and response"),
    (FENCE, "3: the stamp", "result.content + stamp(source, sequencer)", "result.content"),
    (FENCE, "3: If-Match", '{"IfMatch": etag} if etag', "{} if etag"),
    (FENCE, "3: If-None-Match", '{"IfNoneMatch": "*"}', "{}"),
    (FENCE, "3: again on 412", "{404, 409, 412} and", "{404, 409} and"),
    (FENCE, "3: again on 409", "{404, 409, 412} and", "{404, 412} and"),
    (
        FENCE,
        "3: the ETag of step 1",
        "result = result or work(content)\n",
        "result = result or work(content)\n"
        "        etag, metadata = _look_at_output(s3, output_bucket, key)\n",
    ),
)
# What kills quickly; all are in the long run.
REPRESENTATIVE = {
    "Claim Key without nothing newer seen",
    "Claim Key without unlocked",
    "Claim Key without not done",
    "Claim Key without Catch of DynamoDB.ConditionalCheckFailedException",
    "Claim Key without Retry of States.TaskFailed, States.Timeout",
    "Record Sequencer without if newer",
    "Record Sequencer without stays",
    "S3 Object Event? without rule 1: $.detail.object.key IsPresent",
    "S3 Object Event? without rule 1: $.detail.object.sequencer IsString",
    "Key State? without rule 5, to Break Lock",
    "Key State? without rule 6, to Wait For Lock",
    "Outcome? without rule 2: $.inversion.Payload.cause IsPresent",
    "Release Lock without if mine",
    "Release Lock without stays",
    "Fail Key without Park Event before it",
    "fenced_output.py without 1: the sequencer",
    "fenced_output.py without 2: If-Match",
    "fenced_output.py without 3: If-Match",
    "fenced_output.py without 3: the stamp",
}
# No condition of the promise needs these clauses; docs/proof.md says what they are for.
SURVIVORS = {
    "Break Lock without removes the execution",
    "Fail Key without removes the execution",
    "fenced_output.py without 3: again on 409",
}

Found = tuple[Scenario, Result] | None


def mutants() -> list[Mutant]:
    """Make all mutants."""
    definition, made = json.loads(LatestWins.definition), []
    for where, missing, old, new in CLAUSES:
        if where == FENCE:
            assert FUNCTION.count(old) == 1, (where, missing)
            made.append(Mutant(where, missing, function=FUNCTION.replace(old, new)))
            continue
        text = json.dumps(definition["States"][where])
        assert old in text, (where, missing)
        changed = {**definition["States"], where: json.loads(text.replace(old, new))}
        made.append(Mutant(where, missing, json.dumps({**definition, "States": changed})))
    return [*made, _fail_before_park(), *mutants_of(LatestWins.definition)]


def _fail_before_park() -> Mutant:
    """Free the key of an event that fails before the event is in the queue."""
    definition = json.loads(
        LatestWins.definition.replace('"Next": "Park Event"', '"Next": "Fail Key"')
    )
    park, fail = (definition["States"][name] for name in ("Park Event", "Fail Key"))
    park["Next"] = "Parked"
    fail["Next"] = fail["Catch"][0]["Next"] = "Park Event"
    return Mutant("Fail Key", "Park Event before it", json.dumps(definition))


def find_out(engine: Engine, policy: type[Promise], mutant: Mutant) -> Found:
    """Search for the shortest trace against a mutant, or any if it shows in a whole path only."""
    engine.load(mutant.definition or policy.definition, mutant.function or policy.function)
    try:
        for search, scenarios in ((shortest, SCENARIOS), (explore, WHOLE)):
            for scenario in scenarios:
                result = search(policy(engine, scenario), STATES_AT_MOST)
                if result.problem:
                    return scenario, result
    finally:
        engine.load(policy.definition, policy.function)
    return None
