"""Static checks of an ASL file: what can be told to be wrong without running it.

A finding reads ``state: rule: what is wrong``, without the state if it concerns the whole file.
The rules follow from what this project promises, and from the states, operators, intrinsics and
integrations that mean the same on AWS and on every local engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cfnlint import ManualArgs
from cfnlint.api import lint
from samcli.yamlhelper import yaml_parse

Json = dict[str, Any]
Finding = tuple[str, str]  # state, or "" for the whole file; what is wrong
DataPath = tuple[str, ...]
Known = frozenset[DataPath]  # paths that are surely present, each with all its parents

# https://docs.aws.amazon.com/step-functions/latest/dg/choosing-workflow-type.html
EXPRESS_SECONDS = 300
NO_TIMEOUT = 99_999_999  # what AWS takes for a Task without TimeoutSeconds

CONDITION_FAILED = ["DynamoDB.ConditionalCheckFailedException"]
THROTTLED = ["Lambda.TooManyRequestsException"]

STATE_TYPES = {"Pass", "Task", "Choice", "Wait", "Succeed", "Fail"}
PUT, UPDATE, DELETE, GET = (
    f"arn:aws:states:::dynamodb:{action}Item" for action in ("put", "update", "delete", "get")
)
INVOKE, SEND, PUT_EVENTS = (
    f"arn:aws:states:::{action}"
    for action in ("lambda:invoke", "sqs:sendMessage", "events:putEvents")
)
RESOURCES = {PUT, UPDATE, DELETE, GET, INVOKE, SEND, PUT_EVENTS}
# What a Task's result surely has. GetItem gives no Item if there is none.
RESULTS = {INVOKE: "Payload", SEND: "MessageId"}
INTRINSICS = {
    "ArrayLength",
    "Format",
    "Hash",
    "JsonToString",
    "MathAdd",
    "StringSplit",
    "StringToJson",
    "UUID",
}
CONTEXT = {
    "$$.Execution.Id",
    "$$.Execution.Name",
    "$$.State.EnteredTime",
    "$$.StateMachine.Name",
}

_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")
_TOKEN = re.compile(r"(\$\$?(?:\.[\w-]+|\[[^\]]*\])*)|'(?:[^'\\]|\\.)*'")


class LeaseNumbers(NamedTuple):
    """What a file's timeouts, retries and counts add up to, in seconds.

    Attributes
    ----------
    holder : float
        The longest that a lock is held by an execution that lives.
    lease : float
        How long a waiter watches a lock before it breaks it.
    waiter : float
        How long a waiter waits before it gives up.
    longest_execution : float
        An execution that is slow to claim, is refused, waits as long as it may, breaks the lock,
        and is then the slowest holder.
    """

    holder: float
    lease: float
    waiter: float
    longest_execution: float


def check_file(file: Path) -> list[str]:
    """Check one ASL file, and that the template above it, if there is one, fits.

    Parameters
    ----------
    file : Path
        The file, as it stands before substitution.

    Returns
    -------
    list of str
        What is wrong, with the state's and the rule's name; empty if nothing is.
    """
    try:
        text = file.read_text(encoding="utf-8")
        definition = json.loads(text, object_pairs_hook=_once_each)
    except OSError as error:
        return [f"json: cannot be read: {error.strerror}"]
    except (ValueError, RecursionError) as error:
        return [f"json: not valid JSON: {error}"]
    if not isinstance(definition, dict) or not isinstance(definition.get("States"), dict):
        return ["schema: not a state machine: it has no States"]
    # A rule takes for granted that the stages before it found nothing.
    for stage in STAGES:
        findings = [
            f"{state}: {rule}: {wrong}" if state else f"{rule}: {wrong}"
            for rule, check in stage.items()
            for state, wrong in check(definition)
        ]
        if findings:
            return findings
    return [f"{rule}: {wrong}" for rule, wrong in _template(file, text)]


def targets(state: Json) -> list[str]:
    """List the names of the states that may follow a state.

    Parameters
    ----------
    state : dict
        A state of an ASL file.
    """
    rules = [state, *state.get("Choices", []), *state.get("Catch", [])]
    following = [rule["Next"] for rule in rules if "Next" in rule]
    return following + ([state["Default"]] if "Default" in state else [])


def longest(state: Json) -> float:
    """Compute the seconds after which a state has ended or its Catch goes on.

    Each attempt may take the state's timeout, and each delay its longest, as jitter only shortens
    it. But a throttled invocation is refused at once, so that only its delays count.

    Parameters
    ----------
    state : dict
        A state of an ASL file.
    """
    if state["Type"] != "Task":
        seconds: float = state.get("Seconds", NO_TIMEOUT if state["Type"] == "Wait" else 0)
        return seconds
    timeout = state.get("TimeoutSeconds", NO_TIMEOUT)
    total: float = timeout
    for retrier in state.get("Retry", []):
        delay = retrier.get("IntervalSeconds", 1)
        # No delay is below a second, so that more attempts than that are too many in any case.
        for _ in range(min(retrier.get("MaxAttempts", 3), EXPRESS_SECONDS)):
            total += min(delay, retrier.get("MaxDelaySeconds", delay))
            total += 0 if retrier["ErrorEquals"] == THROTTLED else timeout
            delay *= retrier.get("BackoffRate", 2)
    return total


def longest_execution(definition: Json) -> float:
    """Compute the seconds that the slowest way through a file takes.

    Parameters
    ----------
    definition : dict
        The file, without a finding of the earlier rules.

    Raises
    ------
    ValueError
        There is none, as some way comes round again.
    """
    return _longest_path(definition["States"], definition["StartAt"])


def lease_numbers(definition: Json) -> LeaseNumbers | None:
    """Compute what must be in order: holder < lease < waiter, and all of it within Express.

    The numbers are found by their place: a Choice compares a count of looks with
    ``NumericGreaterThanEquals`` to give up, and with ``NumericGreaterThanEqualsPath`` to break the
    lock, against a sum that a Pass has made of the same count with ``States.MathAdd``.

    Parameters
    ----------
    definition : dict
        The file, without a finding of the earlier rules.

    Returns
    -------
    LeaseNumbers or None
        None if the file claims no key, or breaks no lock.

    Raises
    ------
    ValueError
        The file does so in a way that this cannot compute.
    """
    states: Json = definition["States"]
    claims = [name for name, state in states.items() if _is_claim(state)]
    breaks = [
        (name, rule["Next"], condition)
        for name, state in states.items()
        for rule in state.get("Choices", [])
        for condition in _conditions(rule)
        if "NumericGreaterThanEqualsPath" in condition and _is_release(states[rule["Next"]])
    ]
    if not claims or not breaks:
        return None
    claim = _only(claims, "state that claims a key")
    choice, breaker, condition = _only(breaks, "rule that breaks a lock")
    count, limit = condition["Variable"], condition["NumericGreaterThanEqualsPath"]
    rules = states[choice]["Choices"]
    give_up = [rule for rule in rules if rule.get("Variable") == count]
    looks = _only(
        [
            rule["NumericGreaterThanEquals"]
            for rule in give_up
            if "NumericGreaterThanEquals" in rule
        ],
        f"rule of {choice} that gives up at a number of {count}",
    )
    leased_looks = _only(_added(states, count, limit), f"Pass that adds a number to {count}")
    wait = _only([name for name in states if "Seconds" in states[name]], "Wait with Seconds")
    refused = _only(
        [
            each["Next"]
            for each in states[claim]["Catch"]
            if each["ErrorEquals"] == CONDITION_FAILED
        ],
        f"Catch of {claim} for a failed condition",
    )
    parking = _before_breaking(states, choice, limit, breaker)
    between = _leading(states, states[wait]["Next"], choice)
    before = _leading(states, refused, choice) - between
    pause = states[wait]["Seconds"]
    holder, waiter = _longest_path(states, claim, claim), (looks - 1) * pause
    return LeaseNumbers(
        holder=holder,
        lease=leased_looks * pause,
        waiter=waiter,
        longest_execution=sum(longest(states[each]) for each in _leading_up(definition, claim))
        + longest(states[claim])
        + sum(longest(states[name]) for name in before)
        + waiter
        + looks * sum(longest(states[name]) for name in between)
        + sum(longest(states[name]) for name in parking)
        + longest(states[breaker])
        + holder,
    )


# --- The file and its graph ----------------------------------------------------------------------


def _once_each(pairs: list[tuple[str, Any]]) -> Json:
    """Refuse a name that an object has twice, of which JSON would silently drop one."""
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is there twice in one object")
    return dict(pairs)


def _schema(definition: Json) -> Iterator[Finding]:
    """Ask cfn-lint, which knows ASL's schema, by way of the resource that would hold the file."""
    template = {
        "Resources": {
            "StateMachine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "RoleArn": "arn:aws:iam::123456789012:role/check",
                    "Definition": definition,
                },
            }
        }
    }
    for match in lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"])):
        place = [str(part) for part in (match.path or [])[4:]]
        in_state = place[:1] == ["States"] and len(place) > 1
        inside = " > ".join(place[2:] if in_state else place)
        where = f"{inside}: " if inside else ""
        yield place[1] if in_state else "", f"{where}{match.message} ({match.rule.id})"


def _next(definition: Json) -> Iterator[Finding]:
    states: Json = definition["States"]
    for name, state in states.items():
        for target in targets(state):
            if target not in states:
                yield name, f"goes on to {target}, and there is no such state"


def _reached(definition: Json) -> Iterator[Finding]:
    states: Json = definition["States"]
    for name in sorted(set(states) - _reach(states, definition["StartAt"])):
        yield name, "no state leads to it"


def _comment(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        if not state.get("Comment"):
            yield name, "has no Comment that says why it is there"


def _timeout_retry_catch(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        if state["Type"] != "Task":
            continue
        for field in ("TimeoutSeconds", "Retry", "Catch"):
            if not state.get(field):
                yield name, f"a Task without {field}"
        if state.get("Catch") and "States.ALL" not in state["Catch"][-1]["ErrorEquals"]:
            yield (
                name,
                "its Catch does not end with States.ALL, so that an error may lose the event",
            )


def _default(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        if state["Type"] == "Choice" and "Default" not in state:
            yield name, "a Choice without Default"


def _all_errors(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        for field in ("Retry", "Catch"):
            errors = [each["ErrorEquals"] for each in state.get(field, [])]
            if any("States.ALL" in each for each in errors[:-1]):
                yield name, f"States.ALL is not the last in its {field}"
            if any("States.ALL" in each and len(each) > 1 for each in errors):
                yield name, f"States.ALL is not alone in its {field}"


# --- What every engine has -----------------------------------------------------------------------


def _type(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        if state["Type"] not in STATE_TYPES:
            yield name, f"not every engine is known to run a {state['Type']}"


def _resource(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        if state["Type"] == "Task" and state["Resource"] not in RESOURCES:
            yield name, f"not every engine has {state['Resource']}"


def _jsonata(definition: Json) -> Iterator[Finding]:
    for name, state in [("", definition), *definition["States"].items()]:
        for part in [state, *state.get("Choices", []), *state.get("Catch", [])]:
            if part.get("QueryLanguage") == "JSONata":
                yield name, "not every engine has JSONata"
            for field in sorted({"Assign", "Arguments", "Output"} & set(part)):
                yield name, f"not every engine has {field}"


def _operator(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        for condition in [each for rule in state.get("Choices", []) for each in _conditions(rule)]:
            for operator, value in condition.items():
                is_safe = operator == "StringEqualsPath" or operator.startswith("Numeric")
                if operator.endswith("Path") and not is_safe:
                    yield name, f"{operator} is not the same on every engine"
                if operator == "IsPresent" and not value:
                    yield name, "IsPresent: false is not the same on every engine; use Not"


def _intrinsic(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        for expression in _expressions(state):
            functions = set(re.findall(r"States\.(\w+)\(", expression))
            for function in sorted(functions - INTRINSICS):
                yield name, f"not every engine has States.{function}"
            if functions and (not expression.isascii() or "\\" in expression):
                yield name, f"escapes and non-ASCII are not the same on every engine: {expression}"


def _context(definition: Json) -> Iterator[Finding]:
    for name, state in definition["States"].items():
        for path in [each for text in _expressions(state) for each in _paths(text)]:
            if path.startswith("$$") and path not in CONTEXT:
                yield name, f"{path} is not the same on every engine"
        if any(path.startswith("$$") for path in _payload_paths(state.get("ResultSelector"))):
            yield name, "not every engine has the context object in ResultSelector"


def _null(definition: Json) -> Iterator[Finding]:
    def has_null(value: Any) -> bool:
        inside = value.values() if isinstance(value, dict) else value
        return value is None or (isinstance(value, dict | list) and any(map(has_null, inside)))

    for name, state in definition["States"].items():
        for field, value in state.items():
            if has_null(value) and (field, state["Type"]) != ("ResultPath", "Task"):
                yield name, f"a null in its {field} is not the same on every engine"


# --- No path is read that may be absent ----------------------------------------------------------


def _guard(definition: Json) -> Iterator[Finding]:
    """Find paths that may be absent where they are read, which ends an execution uncaught.

    A path is known to be present if on every way to the state it was tested by IsPresent, or
    compared, or written: by a Pass, by a Task whose result surely has it, or by a Catch. Nothing
    is known of the execution's input, nor of what a Task reads. In a file that parks no event only
    comparisons are checked: it promises nothing for the events that it loses.
    """
    states: Json = definition["States"]
    parks = any(state.get("Resource") == SEND for state in states.values())
    for name, known in sorted(_flow(definition).items()):
        state, absent = states[name], set[str]()
        list(_edges(state, known, absent))
        if parks:
            seen = _within(known, _path(state.get("InputPath", "$")))
            reads = list(_payload_paths(state.get("Parameters")))
            for field in set(state) - {"InputPath", "OutputPath", "ResultPath"}:
                reads += _paths(state[field]) if field.endswith("Path") else []
            absent |= {path for path in reads if not _is_known(path, seen)}
            selected = _payload_paths(state.get("ResultSelector"))
            absent |= {path for path in selected if not _is_known(path, _result(state))}
        for path in sorted(absent):
            yield name, f"reads {path}, which may be absent"


def _flow(definition: Json) -> dict[str, Known]:
    """Tell for each state that may be reached which paths are surely present in its input."""
    states: Json = definition["States"]
    flow: dict[str, Known] = {definition["StartAt"]: frozenset([()])}
    waiting = [definition["StartAt"]]
    while waiting:
        name = waiting.pop()
        for target, known in _edges(states[name], flow[name], set()):
            common = flow[target] & known if target in flow else known
            if flow.get(target) != common:
                flow[target] = common
                waiting.append(target)
    return flow


def _edges(state: Json, known: Known, absent: set[str]) -> Iterator[tuple[str, Known]]:
    """Follow a state's ways out, and add to `absent` what it compares without knowing it."""
    if state["Type"] == "Choice":
        known = _within(known, _path(state.get("InputPath", "$")))
        for rule in state["Choices"]:
            holds, known = _judge(rule, known, absent)
            yield rule["Next"], holds
        if "Default" in state:
            yield state["Default"], known
    elif "Next" in state:
        yield state["Next"], _after(state, known)
    for catcher in state.get("Catch", []):
        fault = _with_parents([("Error",), ("Cause",)])
        yield catcher["Next"], _placed(known, catcher.get("ResultPath", "$"), fault)


def _judge(rule: Json, known: Known, absent: set[str]) -> tuple[Known, Known]:
    """Tell what is known after a rule of a Choice holds, and what after it does not."""
    if "Not" in rule:
        holds, fails = _judge(rule["Not"], known, absent)
        return fails, holds
    if "And" in rule:
        ends = []
        for part in rule["And"]:
            known, fails = _judge(part, known, absent)
            ends.append(fails)
        return known, frozenset.intersection(*ends)
    if "Or" in rule:
        ends = []
        for part in rule["Or"]:
            holds, known = _judge(part, known, absent)
            ends.append(holds)
        return frozenset.intersection(*ends), known
    read = [rule["Variable"], *(rule[each] for each in rule if each.endswith("Path"))]
    read_then = known | _with_parents(map(_path, read))
    if "IsPresent" in rule:
        return (read_then, known) if rule["IsPresent"] else (known, read_then)
    absent |= {path for path in read if not _is_known(path, known)}
    return read_then, read_then


def _after(state: Json, known: Known) -> Known:
    """Tell what is known of a state's output, of Choices apart."""
    seen = _within(known, _path(state.get("InputPath", "$")))
    output = seen
    if state["Type"] in {"Pass", "Task"}:
        result = _result(state)
        if "ResultSelector" in state:
            result = _shape(state["ResultSelector"], result)
        elif state["Type"] == "Pass":
            result = _shape(state["Parameters"], seen) if "Parameters" in state else seen
            result = _shape(state["Result"], seen) if "Result" in state else result
        output = _placed(known, state.get("ResultPath", "$"), result)
    return _within(output, _path(state.get("OutputPath", "$")))


def _result(state: Json) -> Known:
    field = RESULTS.get(state.get("Resource", ""))
    return _with_parents([(field,)] if field else [()])


def _shape(template: Any, known: Known) -> Known:
    """Tell what is known of the value that a payload template makes."""
    found: set[DataPath] = {()}
    for key, value in template.items() if isinstance(template, dict) else ():
        is_read = key.endswith(".$")
        inside = _within(known, _path(value)) if is_read else _shape(value, known)
        name = key.removesuffix(".$")
        found |= {(name, *path) for path in inside}
    return frozenset(found)


def _placed(known: Known, at: str | None, value: Known) -> Known:
    """Tell what is known after a value was put at a path; `at` is a ResultPath."""
    if at is None:
        return known
    path = _path(at)
    others = [each for each in known if each[: len(path)] != path]
    return _with_parents([*others, *(path + each for each in value)])


def _within(known: Known, path: DataPath) -> Known:
    """Tell what is known of the value at a path; at the least that it is there."""
    inside = [each[len(path) :] for each in known if each[: len(path)] == path]
    return frozenset([(), *inside])


def _with_parents(paths: Iterable[DataPath]) -> Known:
    return frozenset(path[:length] for path in paths for length in range(len(path) + 1))


def _path(text: str) -> DataPath:
    """Take a path apart. Of one that is not plain, or no path at all, nothing is ever known."""
    if not text.startswith("$") or _STEP.sub("", text[1:]):
        return (text,)
    return tuple("".join(step) for step in _STEP.findall(text[1:]))


def _is_known(path: str, known: Known) -> bool:
    return path.startswith("$$") or _path(path) in known


# --- No lock is left behind ----------------------------------------------------------------------


def _claim(definition: Json) -> Iterator[Finding]:
    """Follow each claim until its lock is released, or its event parked, or somebody forgot both.

    A release frees the key if it succeeds, and if its condition fails the lock was another's. A
    park counts even if it fails, as nothing better can be done: then the lease ends the lock.
    """
    states: Json = definition["States"]
    for claim in [name for name, state in states.items() if _is_claim(state)]:
        reached, waiting = set(), [claim]
        while waiting:
            name = waiting.pop()
            state = states[name]
            if name in reached or state.get("Resource") == SEND:
                continue
            reached.add(name)
            releases = _is_release(state)
            if state["Type"] in {"Succeed", "Fail"} or (state.get("End") and not releases):
                yield claim, f"its lock is neither released nor its event parked on a way to {name}"
            catches = state.get("Catch", [])
            if releases or name == claim:
                catches = [each for each in catches if each["ErrorEquals"] != CONDITION_FAILED]
            waiting += targets({"Catch": catches} if releases else {**state, "Catch": catches})


def _lease(definition: Json) -> Iterator[Finding]:
    claims = [name for name, state in definition["States"].items() if _is_claim(state)]
    try:
        numbers = lease_numbers(definition)
    except ValueError as error:
        yield claims[0], f"its seconds cannot be computed: {error}"
        return
    if not numbers:
        return
    holder, lease, waiter, execution = numbers
    if not holder < lease < waiter:
        yield (
            claims[0],
            f"not in order: a holder's {holder:g} s, a lease's {lease:g}, a waiter's {waiter:g}",
        )
    if execution >= EXPRESS_SECONDS:
        yield (
            claims[0],
            f"the longest execution takes {execution:g} of Express's {EXPRESS_SECONDS} s",
        )


def _express(definition: Json) -> Iterator[Finding]:
    """Add up a file without a lease; those that have one wait, and `_lease` counts the looks."""
    try:
        if lease_numbers(definition):
            return
    except ValueError:
        return
    try:
        seconds = longest_execution(definition)
    except ValueError as error:
        yield "", f"its seconds cannot be computed: {error}"
        return
    if seconds >= EXPRESS_SECONDS:
        yield "", f"the longest execution takes {seconds:g} of Express's {EXPRESS_SECONDS} s"


def _is_claim(state: Json) -> bool:
    item = state.get("Parameters", {}).get("Item", {}) if state.get("Resource") == PUT else {}
    return "lock_token" in item


def _is_release(state: Json) -> bool:
    if state.get("Resource") != UPDATE:
        return False
    parameters = state.get("Parameters", {})
    names = parameters.get("ExpressionAttributeNames", {})
    clauses = re.split(r"\b(SET|REMOVE|ADD|DELETE)\b", parameters.get("UpdateExpression", ""))
    removed = ",".join(clauses[at + 1] for at, word in enumerate(clauses) if word == "REMOVE")
    return "lock_token" in [names.get(each.strip(), each.strip()) for each in removed.split(",")]


def _reach(states: Json, start: str, stop: str = "") -> set[str]:
    """List the states that are reached from one, and not only by way of `stop`."""
    reached, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in reached and name != stop:
            reached.add(name)
            waiting += targets(states[name])
    return reached


def _leading(states: Json, start: str, stop: str) -> set[str]:
    """List the states that an execution may pass on its way from `start` to `stop`."""
    passed = _reach(states, start, stop)
    last = {name for name in passed if stop in targets(states[name])}
    return {name for name in passed if last & _reach(states, name, stop)}


def _leading_up(definition: Json, claim: str) -> set[str]:
    """List the states that an execution may pass before it first claims a key."""
    return _leading(definition["States"], definition["StartAt"], claim)


def _before_breaking(states: Json, choice: str, limit: str, breaker: str) -> set[str]:
    """List what an execution may do when a lease is over, before it breaks the lock."""
    over = [
        rule["Next"]
        for rule in states[choice]["Choices"]
        for condition in _conditions(rule)
        if condition.get("NumericGreaterThanEqualsPath") == limit
    ]
    return {name for start in over for name in _leading(states, start, breaker)} & {*over}


def _longest_path(states: Json, start: str, claim: str = "") -> float:
    """Add up the slowest way from a state to an execution's end; `claim` is not refused on it."""
    known: dict[str, float] = {}

    def seconds(name: str, before: tuple[str, ...]) -> float:
        if name in before:
            raise ValueError(f"an execution may come to {name} again and again")
        if name not in known:
            state = states[name]
            refused = CONDITION_FAILED if name == claim else None
            catches = [each for each in state.get("Catch", []) if each["ErrorEquals"] != refused]
            following = targets({**state, "Catch": catches})
            longest_rest = max((seconds(each, (*before, name)) for each in following), default=0)
            known[name] = longest(state) + longest_rest
        return known[name]

    return seconds(start, ())


def _added(states: Json, count: str, limit: str) -> list[int]:
    """Find the numbers that a Pass adds to a count where it writes the limit."""
    found = []
    for state in states.values():
        for key, value in state.get("Parameters", {}).items():
            if f"{state.get('ResultPath')}.{key.removesuffix('.$')}" == limit:
                found += re.findall(rf"^States\.MathAdd\({re.escape(count)}, *(\d+)\)$", str(value))
    return list(map(int, found))


def _only(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise ValueError(f"there is not one {what}, but {len(found)}")
    return found[0]


# --- The template --------------------------------------------------------------------------------


def _template(file: Path, text: str) -> Iterator[tuple[str, str]]:
    """Compare a file with the template of its project, ``../template.yaml``, if there is one."""
    template = file.resolve().parent.parent / "template.yaml"
    if not template.is_file():
        return
    try:
        resources = yaml_parse(template.read_text(encoding="utf-8"))["Resources"].values()
        machines = [each["Properties"] for each in resources if "Properties" in each]
    except Exception as error:  # the YAML parser's, or that of a template without sense
        yield "template", f"{template.name} cannot be read: {' '.join(str(error).split())}"
        return
    named = [
        each
        for each in machines
        if isinstance(each.get("DefinitionUri"), str)
        and (template.parent / each["DefinitionUri"]).resolve() == file.resolve()
    ]
    if not named:
        yield "template", f"no resource of {template.name} names this file"
    asked_for = set(re.findall(r"\$\{(\w+)\}", text))
    for machine in named:
        given = set(machine.get("DefinitionSubstitutions", {}))
        for name in sorted(asked_for - given):
            yield "substitutions", f"{template.name} gives nothing for ${{{name}}}"
        for name in sorted(given - asked_for):
            yield "substitutions", f"{template.name} gives {name}, which the file does not ask for"


# --- Parts of a state ----------------------------------------------------------------------------


def _conditions(rule: Json) -> Iterator[Json]:
    """List a rule of a Choice and all rules inside it."""
    yield rule
    inside = [rule["Not"]] if "Not" in rule else rule.get("And", []) + rule.get("Or", [])
    for each in inside:
        yield from _conditions(each)


def _payload(template: Any) -> Iterator[str]:
    """List the expressions of a payload template."""
    inside = template if isinstance(template, list) else []
    if isinstance(template, dict):
        yield from (str(value) for key, value in template.items() if key.endswith(".$"))
        inside = [value for key, value in template.items() if not key.endswith(".$")]
    for each in inside:
        yield from _payload(each)


def _payload_paths(template: Any) -> Iterator[str]:
    for expression in _payload(template):
        yield from _paths(expression)


def _paths(expression: Any) -> list[str]:
    """List the paths of an expression, but not what looks like one in its literals."""
    return [path for path in _TOKEN.findall(str(expression)) if path]


def _expressions(state: Json) -> Iterator[str]:
    """List all that an engine evaluates in a state."""
    yield from _payload(state.get("Parameters"))
    yield from _payload(state.get("ResultSelector"))
    parts = [each for rule in state.get("Choices", []) for each in _conditions(rule)]
    for part in [state, *parts]:
        yield from (str(part[each]) for each in part if each == "Variable" or each.endswith("Path"))


Rule = Callable[[Json], Iterator[Finding]]
STAGES: tuple[dict[str, Rule], ...] = (
    {"schema": _schema},
    {"next": _next},
    {
        "reached": _reached,
        "comment": _comment,
        "timeout-retry-catch": _timeout_retry_catch,
        "default": _default,
        "all-errors": _all_errors,
        "type": _type,
        "resource": _resource,
        "jsonata": _jsonata,
        "operator": _operator,
        "intrinsic": _intrinsic,
        "context": _context,
        "null": _null,
    },
    {"guard": _guard, "claim": _claim, "lease": _lease, "express": _express},
)
