"""Negative controls: the product without one of its clauses, which the explorer must find out."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.model.engine import DEFINITION, FUNCTION, Engine
from tests.model.explorer import Result, Scenario, explore, shortest

STATES_AT_MOST = 5_000
SCENARIOS = (
    Scenario((1,)),
    Scenario((1,), contents="a"),
    Scenario((1, 1)),
    Scenario((1, 2)),
    Scenario((1, 1), crashes=1, breaks=1),
    Scenario((1, 2), crashes=1, breaks=1),
    Scenario((1, 1), faults=1),
    Scenario((1, 2), faults=1),
    Scenario((1, 1), crashes=1, restarts=1),
    Scenario((1, 2), crashes=1, restarts=1),
    Scenario((1, 1), contents="a", crashes=1),
    Scenario((1, 2), contents="Ab", breaks=1),
    Scenario((1, 2), crashes=1, expiries=1),
    Scenario((1, 2, 3), breaks=1, contents="ABA"),
    Scenario((1, 2), versioned=True, crashes=1, breaks=1),
    Scenario((1, 2), versioned=True, contents="AA", crashes=1, breaks=1),
    Scenario((1, 2), contents="AA", crashes=1, breaks=1),
    Scenario((1, 2, 2)),
    Scenario((1, 1, 2)),
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
    (
        "Key State?",
        "newest is another (clause)",
        '"StringEqualsPath": "$.sequencer"}}',
        '"StringEquals": ""}}',
    ),
    ("Key State?", "done (clause)", '"StringEquals": "DONE"', '"IsPresent": true'),
    (
        "Key State?",
        "done is this one (clause)",
        '"$.record.Item.sequencer.S", "StringEqualsPath": "$.sequencer"',
        '"$.record.Item.sequencer.S", "IsPresent": true',
    ),
    (
        "Key State?",
        "the lock is watched (clause)",
        '{"Variable": "$.record.Item.lock_token.S", "StringEqualsPath": "$.watched.lock_token"}, ',
        "",
    ),
    (
        "Key State?",
        "for a lease (clause)",
        '"NumericGreaterThanEqualsPath": "$.watched.break_at_look"',
        '"NumericGreaterThanEquals": 0',
    ),
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
    ("Outcome?", "Superseded (clause)", '"StringEquals": "Superseded"', '"StringEquals": "?"'),
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
RULES = (
    *(("Key State?", rule) for rule in range(6)),
    ("Outcome?", 0),
    ("Outcome?", 1),
    ("Output Written?", 0),
)


@dataclass(frozen=True)
class Mutant:
    """The product without something."""

    where: str
    missing: str
    definition: str = DEFINITION
    function: str = FUNCTION


def mutants() -> list[Mutant]:
    """Make all mutants."""
    made = []
    for where, missing, old, new in CLAUSES:
        if where == FENCE:
            assert FUNCTION.count(old) == 1, (where, missing)
            made.append(Mutant(where, missing, function=FUNCTION.replace(old, new)))
            continue
        definition = json.loads(DEFINITION)
        text = json.dumps(definition["States"][where])
        assert old in text, (where, missing)
        definition["States"][where] = json.loads(text.replace(old, new))
        made.append(Mutant(where, missing, json.dumps(definition)))
    for where, rule in RULES:
        definition = json.loads(DEFINITION)
        removed = definition["States"][where]["Choices"].pop(rule)
        if not definition["States"][where]["Choices"]:  # one rule at least, so one that never holds
            definition["States"][where]["Choices"] = [removed | {"StringEquals": "?"}]
        missing = f"rule {rule + 1}, to {removed['Next']}"
        made.append(Mutant(where, missing, json.dumps(definition)))
    return made


def find_out(engine: Engine, mutant: Mutant) -> tuple[Scenario, Result] | None:
    """Search for the shortest trace against a mutant, or any if it shows in a whole path only."""
    engine.load(mutant.definition, mutant.function)
    try:
        for scenario in SCENARIOS:
            result = shortest(engine, scenario, STATES_AT_MOST)
            if result.problem:
                return scenario, result
        for scenario in SCENARIOS[2:6]:
            result = explore(engine, scenario, STATES_AT_MOST)
            if result.problem:
                return scenario, result
    finally:
        engine.load()
    return None
