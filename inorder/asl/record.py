"""Which record has the lock, and where do messages go? Other executions and the tools must know.

A lock is that of one object, as S3's sequencers order the events of one key, or of one version:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
Two versions of a file may run at once, so each must make what conditions compare from the same.
"""

import re
from collections.abc import Iterator

from inorder.asl.definition import (
    GET,
    SEND,
    Json,
    Rule,
    Violation,
    each_state,
    expressions,
    paths,
    payload,
    values_written,
)
from inorder.asl.roles import HANDS_OVER, Role, assigned, does, doing, working

EVENT = "$$.Execution.Input.detail"
ONE_KEY = {f"{EVENT}.bucket.name", f"{EVENT}.object.key"}
VERSION, SEQUENCER = f"{EVENT}.object['version-id']", f"{EVENT}.object.sequencer"
DISTINCT = {"Format", "Hash"}  # functions that keep the values of two keys apart
LOCKS = (Role.CLAIMS, Role.RENEWS, Role.RELEASES, Role.BREAKS)


def _lock(definition: Json) -> Iterator[Violation]:
    states: Json = definition["States"]
    for claim in doing(states, Role.CLAIMS):
        record = record_of(states[claim])
        for name in doing(states, *LOCKS):
            if record_of(states[name]) != record:
                yield name, f"its record is not {' '.join(record)}, whose lock {claim} takes"
        ids = origins(states, record[1])
        for each in ids:
            made = [each, *(origin for path in paths(each) for origin in origins(states, path))]
            read = {path for part in made for path in paths(part) if path.startswith("$$")}
            functions = {name for part in made for name in re.findall(r"States\.(\w+)\(", part)}
            if not read >= ONE_KEY or functions - DISTINCT:
                yield claim, f"it spans objects, whose sequencers do not compare: {each}"
            elif read - ONE_KEY - {VERSION}:
                yield claim, f"two events of one object may have two locks: {each}"
        if not any(VERSION in each for each in ids):
            yield claim, "it spans an object's versions, whose sequencers do not compare"
    for name, state in states.items():
        for path, wanted in _compared(state):
            for each in origins(states, path):
                if each != wanted:
                    yield name, f"it compares {path}, which must be {wanted}, and not {each}"


def _compared(state: Json) -> Iterator[tuple[str, str]]:
    """List the paths that a state records or compares, each with what it must be made from."""
    parameters = state.get("Parameters", {})
    values = {**parameters.get("Item", {}), **parameters.get("ExpressionAttributeValues", {})}
    for name, wanted in (("sequencer", SEQUENCER), ("lock_token", "States.UUID()")):
        for each in (values.get(name), values.get(f":{name}")):
            if each:
                yield each.get("S.$", str(each)), wanted


def record_of(state: Json) -> tuple[str, str]:
    """Name the table and the ID of the record that a state writes."""
    parameters = state["Parameters"]
    identity = parameters.get("Key", parameters.get("Item", {})).get("id", {})
    return str(parameters.get("TableName")), str(identity.get("S.$"))


def origins(states: Json, path: str) -> list[str]:
    """Trace a path of the data to what Pass states have written to it first."""
    found, waiting = [path], [path]
    while waiting:
        each = waiting.pop()
        new = [other for other in values_written(states, each) if other not in found]
        found, waiting = found + new, waiting + new
    return [each for each in found if not values_written(states, each)]


def _read(definition: Json) -> Iterator[Violation]:
    """Check that a read of a lock shows what other executions have written to it."""
    states: Json = definition["States"]
    read = {path for each in states.values() for path in paths(*expressions(each))}
    written_to = {record_of(states[each]) for each in doing(states, Role.CLAIMS, Role.RECORDS)}
    for name, state in states.items() if doing(states, Role.CLAIMS) else ():
        if state.get("Resource") != GET:
            continue
        selected, at = state.get("ResultSelector"), f"{state.get('ResultPath')}.Item."
        found, at = (paths(*payload(selected)), "$.Item.") if selected else (read, at)
        taken = {path.removeprefix(at).split(".")[0] for path in found if path.startswith(at)}
        parameters = state["Parameters"]
        if "lock_token" in taken or record_of(state) in written_to:
            if record_of(state) not in written_to:
                yield name, "it reads another record than those that the file writes"
            if not parameters.get("ConsistentRead"):
                yield name, "without ConsistentRead, it may miss a lock that was taken before"
        names = parameters.get("ExpressionAttributeNames", {})
        asked = parameters.get("ProjectionExpression", ",".join(taken)).replace(" ", "").split(",")
        for each in sorted(taken.difference(names.get(each, each) for each in asked)):
            yield name, f"its ProjectionExpression leaves out {each}, which a later state reads"


def _index(definition: Json) -> Iterator[Violation]:
    """Check that a sweep finds an event whose execution dies: by its record, in the index."""
    states: Json = definition["States"]
    for claim in doing(states, Role.CLAIMS):
        records = set(doing(states, Role.RECORDS)).difference(working(states))
        if not records:
            yield claim, "no state records the event, so that it is lost if its execution dies"
        for name in sorted(records):
            if "in_progress_since" not in assigned(states[name]):
                yield name, "without in_progress_since, no sweep finds the event if a holder dies"


@each_state
def _queue(state: Json) -> Iterator[str]:
    """Check that an event that is parked or retried goes where the retries and the tools read."""
    if not does(state, *HANDS_OVER):
        return
    parameters, parks = state["Parameters"], does(state, Role.PARKS)
    if state["Resource"] == SEND:
        messages = [(parameters.get("QueueUrl"), parameters["MessageBody"])]
        wanted = "${ParkedEventsQueueUrl}" if parks else "${RetryEventsQueueUrl}"
    else:
        messages = [(each.get("EventBusName"), each["Detail"]) for each in parameters["Entries"]]
        wanted = "${RetryEventsBusName}"
    for sent_to, message in messages:
        if sent_to != wanted:
            yield f"it sends its event to {sent_to} instead of {wanted}"
        if not {"event", "event.$"} & set(message):
            yield "its message has no event"


RULES: dict[str, Rule] = {"lock": _lock, "read": _read, "index": _index, "queue": _queue}
