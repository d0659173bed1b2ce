"""What is asked of AWS: each step gives what it has seen, and fails if that is not as expected."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from inorder import PROJECT
from inorder.aws import parked, waiting
from inorder.aws.executions import start
from inorder.aws.log import state_machine
from inorder.aws.stack import Described
from inorder.demo.pictures import SLOW_EVERY, PicturePair, own_pairs
from inorder.demo.run import GAP_SECONDS, UNCOORDINATED, shows
from inorder.errors import Failure
from inorder.model.execution import Execution, Filter
from inorder_fence.records import object_key_of
from tests.aws.trial import PREFIX, Trial
from tests.conftest import picture
from tests.policies.situations import RED
from tests.policies.stories import tell
from tests.policies.tables import STATES, TABLES
from tests.support.replacing import replaced

LATEST_WINS = STATES["latest-wins"]
REFUSED = f"{PREFIX}refused/"  # of uploads that come while the function may not run
INVOCATIONS_OF_A_KEY, OF_OTHERS = 4, 2  # at once: the demonstration's; the sweep's and a retry's


class Unknown(Exception):
    """What this AWS did not show, so that nobody can say whether it is as expected."""


def deploy(trial: Trial) -> str:
    """SAM deploys the stack, and an upload becomes an output."""
    trial.deploy()
    keys = list[str]()

    def has_output() -> bool:
        keys.append(f"{PREFIX}first-{len(keys)}.png")
        trial.s3.put_object(Bucket=trial.input_bucket, Key=keys[-1], Body=picture(RED))
        time.sleep(trial.either(15, 1))
        return any(map(trial.output, keys))

    seconds = trial.wait(has_output, "a first output")
    return f"the first output {seconds:.0f} s after the deployment"


def tell_stories(trial: Trial) -> str:
    """The stories of every policy end as they do on the local engines."""
    wrong = list[str]()
    for policy, cases in TABLES.items():
        for story in cases.stories:
            try:
                tell(trial, story, policy)
            except AssertionError as error:
                wrong.append(f"{policy}: {error}")
    assert not wrong, "; ".join(wrong)
    return ", ".join(f"{len(cases.stories)} of {policy}" for policy, cases in TABLES.items())


def keys_at_once(concurrency: int) -> int:
    """Give how many keys the demonstration may have at once, so that Lambda refuses no call."""
    return max(1, (concurrency - OF_OTHERS) // INVOCATIONS_OF_A_KEY)


def show_demonstration(trial: Trial) -> str:
    """Outputs are stale without coordination; with it, none is, and no event is done twice."""
    limits = trial.aws.client("lambda").get_account_settings()["AccountLimit"]
    pairs = own_pairs(int(trial.either(30, SLOW_EVERY)))
    possible = min(len(pairs), keys_at_once(limits["UnreservedConcurrentExecutions"]))
    at_once = int(trial.either(possible, 2))  # a local invocation is a process

    def show(policy: str, number: int, pair: PicturePair) -> Counter[str]:
        key, slow = f"by-hand/{policy}/{pair.key}", b"" if number % SLOW_EVERY else b"slow"
        with ThreadPoolExecutor(INVOCATIONS_OF_A_KEY) as pool:
            old = trial.change(key, pair.old + slow, "00B1")
            runs = [pool.submit(trial.outcome, policy, old)]
            time.sleep(GAP_SECONDS)
            new = trial.change(key, pair.new, "00B2")
            runs += [pool.submit(trial.outcome, policy, event) for event in (new, old, new)]
        outcomes = [run.result() for run in runs]
        again = list(zip(outcomes[:2], outcomes[2:], strict=True))

        def is_right() -> bool:
            return shows(trial.output(key) or b"", pair.new)

        if "Retrying" in outcomes:  # it has waited for long, or Lambda has refused its call
            with suppress(TimeoutError):
                trial.wait(is_right, f"the newest output of {key}")
        return Counter(stale=int(not is_right()), again=again.count(("Processed", "Processed")))

    def shown(policy: str) -> Counter[str]:
        with ThreadPoolExecutor(at_once) as pool:
            counts = pool.map(lambda numbered: show(policy, *numbered), enumerate(pairs, 1))
            return sum(counts, Counter[str]())

    off, on = shown(UNCOORDINATED), shown("latest-wins")
    seen = f"{len(pairs)} keys, {at_once} at once; stale outputs: {off['stale']}, coordinated"
    seen += f" {on['stale']}; events processed twice: {off['again']}, coordinated {on['again']}"
    assert (off["stale"] > 0, on["stale"], on["again"]) == (True, 0, 0), seen
    return seen


def refuse_calls(trial: Trial) -> str:
    """Uploads that come while the function may not run are processed after it may again."""
    functions, name = trial.aws.client("lambda"), trial.stack.function_name
    keys = [f"{REFUSED}{number}.png" for number in range(10)]
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        for key in keys:
            trial.s3.put_object(Bucket=trial.input_bucket, Key=key, Body=picture(RED))
        time.sleep(trial.either(120, 5))
        early = sum(bool(trial.output(key)) for key in keys)
    finally:
        functions.delete_function_concurrency(FunctionName=name)
    seconds = trial.wait_for_outputs(*keys)
    assert not early, f"{early} of {len(keys)} were processed by a function that may not run"
    return f"{len(keys)} outputs, all within {seconds:.0f} s"


def read_pauses(trial: Trial) -> str:
    """Refused calls are repeated after random pauses, none longer than the retrier allows."""
    states, logs = trial.aws.client("stepfunctions"), trial.aws.client("logs")
    machine = state_machine(states, logs, [trial.stack.state_machine_arn])
    executions = map(machine.describe, (run.arn for run in machine.select(Filter(prefix=REFUSED))))
    return judge_pauses(executions, LATEST_WINS["Invert Image"]["Retry"][0])


def judge_pauses(executions: Iterable[Execution], retrier: dict[str, int]) -> str:
    """Compare a state's pauses between two calls with what its retrier allows.

    The first two are left out: they are shorter than the longest ones.
    """
    seconds = [
        (after.started - before.ended).total_seconds()
        for execution in executions
        for step in execution.steps
        for before, after in [*pairwise(step.attempts)][2:]
        if before.ended and after.started
    ]
    if not seconds:
        raise Unknown("no call was repeated three times")
    assert retrier["BackoffRate"] == 1, "the pauses grow: compute the longest one"
    most = retrier["IntervalSeconds"]
    seen = f"{len(seconds)} pauses of {min(seconds):.1f} to {max(seconds):.1f} s, of {most} allowed"
    assert max(seconds) <= most + 1, f"The longest pause is not kept: {seen}"
    assert min(seconds) < most / 2, f"JitterStrategy FULL is not kept: {seen}"
    return seen


def park_and_redrive(trial: Trial) -> str:
    """An event that is rejected is parked with the reason; a redrive processes it."""
    key, large = f"{PREFIX}parked.jpg", PROJECT / "docs/images/demonstration.jpg"
    trial.s3.put_object(Bucket=trial.input_bucket, Key=key, Body=large.read_bytes())
    rejected = list[parked.ParkedEvent]()

    def is_parked() -> bool:
        events = parked.parked_events(trial.aws)
        rejected[:] = [event for event in events if event.subject.endswith(key)]
        return bool(rejected)

    trial.wait(is_parked, "the parked event")
    assert not trial.output(key), "a picture of too many pixels has an output"
    functions, name = trial.aws.client("lambda"), trial.stack.function_name
    environment = functions.get_function_configuration(FunctionName=name)["Environment"]
    environment["Variables"]["MAXIMUM_PIXELS"] = "1000000"
    functions.update_function_configuration(FunctionName=name, Environment=environment)
    functions.get_waiter("function_updated_v2").wait(FunctionName=name)
    redriven = [*parked.redrive(trial.aws, {event.id for event in rejected})]
    seconds = trial.wait_for_outputs(key)
    assert not is_parked(), "the event is still parked"
    return f"{redriven[0].reason[:80]}; an output {seconds:.0f} s after the redrive"


def sweep(trial: Trial) -> str:
    """A sweep frees a lock that nobody holds, and its event is processed."""
    event = trial.change("by-hand/swept.png", picture(RED), "00E1")
    since = datetime.now(UTC) - timedelta(minutes=trial.either(0, 60))
    machine = replaced(trial.stack.state_machine_arn, ":stateMachine:", ":express:")
    trial.table.put_item(
        Item={"id": object_key_of(event), "status": "IN_PROGRESS", "lock_token": "dead"}
        | {"execution": f"{machine}:dead:dead", "in_progress_since": since.isoformat()}
        | {"event": json.dumps(event), "sequencer": "00E1"}
    )
    if trial.local:  # its schedule would take a minute
        resources = Described(trial.client("cloudformation"), trial.name).resources
        trial.client("lambda").invoke(FunctionName=resources["HealKeysFunction"])
    seconds = trial.wait_for_outputs("by-hand/swept.png")
    return f"an output {seconds:.0f} s after the lock was put there"


def pause_stack(trial: Trial) -> str:
    """An upload waits in a pause, and is processed after the deployment that ends it."""
    key = f"{PREFIX}paused.png"
    trial.deploy(Paused="true")
    try:
        time.sleep(trial.either(60, 0))  # until EventBridge uses the changed rule
        trial.s3.put_object(Bucket=trial.input_bucket, Key=key, Body=picture(RED))
        trial.wait(lambda: waiting.count(trial.aws) == 1, "the event that waits")
        time.sleep(trial.either(60, 1))
        assert not trial.output(key), "an upload was processed in the pause"
    finally:
        trial.deploy()
    seconds = trial.wait_for_outputs(key)
    return f"an output {seconds:.0f} s after the end of the pause"


def throttle_table(trial: Trial) -> str:
    """The state machine knows by name how DynamoDB throttles."""
    event = trial.change("by-hand/throttled.png", picture(RED), "00D1")
    first, began = trial.outcome("latest-wins", event), time.time()
    states, text = trial.aws.client("stepfunctions"), json.dumps(event)
    allow_writes(trial, 1)
    try:
        time.sleep(trial.either(60, 0))
        with ThreadPoolExecutor(20) as pool:  # duplicates, so the function is not called
            for _ in range(int(trial.either(1000, 10))):
                pool.submit(start, states, trial.stack.state_machine_arn, text)
        time.sleep(trial.either(90, 1))  # for the log
    finally:
        allow_writes(trial, -1)
    pages = trial.aws.client("logs").get_paginator("filter_log_events")
    lines = pages.paginate(
        logGroupName=f"/aws/vendedlogs/states/{trial.name}",
        startTime=int(began * 1000),
        filterPattern='{ $.details.error = "DynamoDB.*" }',
    ).search("events[].message")
    assert first == "Processed", first
    return judge_errors(lines)


def allow_writes(trial: Trial, units: int) -> None:
    """Let the table have so many write units a second; -1 for no limit."""
    dynamodb, table = trial.aws.client("dynamodb"), trial.stack.key_table
    throughput = {"MaxWriteRequestUnits": units}
    dynamodb.update_table(TableName=table, OnDemandThroughput=throughput)
    dynamodb.get_waiter("table_exists").wait(TableName=table)  # which waits until it is active


def judge_errors(messages: Iterable[str]) -> str:
    """Compare the errors in lines of the log with the names that *Claim Key* retries."""
    errors = Counter(json.loads(message)["details"].get("error", "") for message in messages)
    del errors["DynamoDB.ConditionalCheckFailedException"]
    if not errors:
        raise Unknown("DynamoDB throttled no write")
    retried = set(LATEST_WINS["Claim Key"]["Retry"][0]["ErrorEquals"])
    assert set(errors) <= retried, f"not retried: {set(errors) - retried}; all: {dict(errors)}"
    return str(dict(errors))


def delete(trial: Trial) -> str:
    """The stack and its data can be deleted."""
    try:
        trial.delete()
    except BaseException as error:  # an interrupt, too
        again = f"make test-aws REMOVE={trial.name} deletes what is left"
        raise Failure(f"{type(error).__name__}: {error}; {again}") from None
    return "nothing is left"


STEPS = [
    *(tell_stories, show_demonstration, refuse_calls, read_pauses),
    *(park_and_redrive, sweep, pause_stack, throttle_table),
]
