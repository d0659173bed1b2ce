"""What is asked of the logs, metrics and alarms, of the commands, and of changes under load."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from inorder import PROJECT
from inorder.audit.audit import Audit
from inorder.audit.comparing import Verdict
from inorder.aws.health import UNKNOWN, WRONG, health
from tests.conftest import picture
from tests.first_hour.deliveries import PATIENCE, RED
from tests.first_hour.questions import Answer, question, seen
from tests.first_hour.trial import PREFIX, Trial
from tests.support.resolved_template import of_type, template

WATCHED = {  # by the stack's alarms: the namespaces and names of metrics
    (each["Namespace"], each["MetricName"])
    for each in of_type(template()["Resources"], "CloudWatch::Alarm").values()
}
NO_LOG = "it writes no log of Express executions."


def _has_ended(describe: Callable[[], Any]) -> bool:
    return describe()["status"].upper() not in {"SCHEDULED", "RUNNING"}


@question(
    "What does the log have of one execution, and how late?",
    "The entry and exit of each state with its data, and IDs that count from 1. Step Functions may"
    " start an execution twice: then it is observed whether both have the same ARN.",
    not_local=NO_LOG,
)
def log(trial: Trial) -> Answer:
    logs, group = trial.client("logs"), f"/aws/vendedlogs/states/{trial.name}"

    def matching(pattern: str) -> list[dict[str, Any]]:
        pages = logs.get_paginator("filter_log_events")
        pages = pages.paginate(logGroupName=group, filterPattern=f"{{ {pattern} }}")
        return [each for page in pages for each in page["events"]]

    ended = matching('$.type = "ExecutionSucceeded"')
    arns = [json.loads(each["message"])["execution_arn"] for each in ended]
    names = Counter(arn.rpartition(":")[0] for arn in arns)
    twice = sorted(arn for arn in arns if names[arn.rpartition(":")[0]] > 1)
    found = matching(f'$.execution_arn = "{arns[-1]}"')
    entries = [json.loads(each["message"]) for each in found]
    late = max(each["ingestionTime"] - each["timestamp"] for each in found) / 1000
    size = sum(len(each["message"]) for each in found) / 1000
    is_known = {"id", "previous_event_id", "event_timestamp", "type", "details"} <= set(entries[0])
    ids = sorted(int(each["id"]) for each in entries)
    told = f"{len(entries)} entries, {size:.0f} kB, at most {late:.1f} s late; of {len(arns)}"
    told += f" executions, these have succeeded twice: {twice or 'none'}"
    return seen(is_known and ids == [*range(1, len(ids) + 1)], told, found)


def _raised(trial: Trial) -> dict[str, str]:
    """Give the alarms that are raised: what they are described as, by their names."""
    pages = trial.client("cloudwatch").get_paginator("describe_alarms")
    pages = pages.paginate(AlarmNamePrefix=trial.name, StateValue="ALARM")
    alarms = [each for page in pages for each in page["MetricAlarms"]]
    return {each["AlarmName"]: each.get("AlarmDescription", "") for each in alarms}


@question(
    "Is an alarm raised once an event is parked?",
    "Within a quarter of an hour. Others that are raised have to do with the questions before.",
    not_local="it evaluates no alarm.",
)
def alarms(trial: Trial) -> Answer:
    trial.run("latest-wins", {"no": "event"})
    wanted = "EventParkedAlarm"
    seconds = trial.wait(lambda: wanted in str([*_raised(trial)]), 900, wanted)
    return seen(True, f"after {seconds:.0f} s: {[*_raised(trial)]}")


@question(
    "Are there the metrics that the alarms watch, and those of the functions?",
    "Ages and numbers of messages in AWS/SQS, errors in AWS/Lambda, and Processed.",
    not_local="it writes no metrics of SQS.",
)
def metrics(trial: Trial) -> Answer:
    cloudwatch, told = trial.client("cloudwatch"), dict[str, list[str]]()
    wanted = {*WATCHED, (trial.name, "Processed")}
    for namespace in sorted({each for each, _ in wanted}):
        pages = cloudwatch.get_paginator("list_metrics").paginate(Namespace=namespace)
        found = {
            each["MetricName"]
            for page in pages
            for each in page["Metrics"]
            if namespace == trial.name or trial.name in str(each.get("Dimensions"))
        }
        told[namespace] = sorted(found)
    is_there = all(name in told[namespace] for namespace, name in wanted)
    return seen(is_there, str(told), told)


@question(
    "Do the queries of docs/operate.md run?",
    "Each is Complete: no engine here knows the syntax of Logs Insights.",
    not_local="it has no Logs Insights.",
)
def queries(trial: Trial) -> Answer:
    text = (PROJECT / "docs/operate.md").read_text(encoding="utf-8")
    found = re.findall(r"```\n((?:fields|filter) .*?)```", text, re.DOTALL)
    logs, now, told = trial.client("logs"), int(time.time()), list[str]()
    for query in found:
        started = logs.start_query(
            logGroupName=f"/aws/vendedlogs/states/{trial.name}",
            startTime=now - 7200,
            endTime=now,
            queryString=query,
        )
        results = partial(logs.get_query_results, queryId=started["queryId"])
        trial.wait(partial(_has_ended, results), 120, "a query")
        told.append(f"{results()['status']}, {len(results()['results'])} rows")
    return seen(bool(found) and all(each.startswith("Complete") for each in told), "; ".join(told))


@question(
    "What does `inorder doctor` find wrong?",
    "Nothing but messages in queues and the alarms that are raised, and nothing is unknown.",
)
def doctor(trial: Trial) -> Answer:
    checks, raised = list(health(trial.aws)), set(_raised(trial).values())
    found = [each.text for each in checks if each.state in {WRONG, UNKNOWN}]
    wrong = [each for each in found if "Queue has" not in each and each not in raised]
    return seen(not wrong, f"{len(checks)} checks; wrong or unknown: {wrong or 'none'}")


@question(
    "Does `inorder why` tell what became of an upload?",
    "That its event was Processed, and that its output is right.",
)
def why(trial: Trial) -> Answer:
    key = f"{PREFIX}why.png"
    trial.put(key, picture(RED))
    trial.wait(lambda: bool(trial.output(key)), PATIENCE, "its output")
    time.sleep(trial.seconds(30, 1))  # for the log
    printed = trial.inorder("why", key)
    is_told = "Processed" in printed and "That is right" in printed
    return seen(is_told, printed.strip()[-200:], printed)


@question(
    "Are all outputs right after changes of the bucket and the policy, and back, under load?",
    "What another policy processed has no output of this one until a repair; then all are right.",
)
def changes_under_load(trial: Trial) -> Answer:
    stop, keys = threading.Event(), list[str]()

    def load() -> None:
        while not stop.wait(1):
            keys.append(f"{PREFIX}load/{len(keys) % 20}.png")
            trial.put(keys[-1], picture((len(keys) % 256, 0, 0)))

    uploading = threading.Thread(target=load)
    uploading.start()
    try:
        trial.deploy_main(InputBucketVersioning="Enabled")  # every-version needs it
        for policy in ("every-version", "latest-wins"):
            trial.deploy_main(Policy=policy)
        trial.deploy_main(InputBucketVersioning="Suspended")  # so uploads make null versions
    finally:
        stop.set()
        uploading.join()
    trial.put(f"{PREFIX}load/0.png", picture(RED))
    trial.client("s3").delete_object(Bucket=trial.stack.input_bucket, Key=f"{PREFIX}load/1.png")
    audit, grace = Audit(trial.aws, f"{PREFIX}load/"), trial.seconds(60, 1)
    is_quiet = lambda: Verdict.WAITING not in audit.run(grace=grace).counts  # noqa: E731
    with suppress(TimeoutError):
        trial.wait(is_quiet, trial.seconds(2 * PATIENCE, 10), "the end of the last executions")
    before = audit.run(grace=grace)
    repaired = [ended for _, ended in audit.repair(before.findings, 5)]
    after = audit.run(grace=grace)
    counts = [{str(each): n for each, n in found.counts.items()} for found in (before, after)]
    wrong = [each.described() for each in after.findings]
    allowed = {Verdict.RIGHT, Verdict.MISSING}
    if trial.local:  # it ends what a function does when that is updated, and a sweep is far away
        allowed.add(Verdict.WAITING)
    is_kept = set(before.counts) <= allowed
    told = f"{len(keys)} uploads; {counts[0]}, then {counts[1]}; repairs: {dict(Counter(repaired))}"
    return seen(is_kept and after.is_right, told, wrong)


@question(
    "Which form do S3's sequencers have, those of versions and null versions, too?",
    "Hexadecimal digits; of two lengths, the shorter is padded:"
    " https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html",
)
def sequencers(trial: Trial) -> Answer:
    found = list[str]()
    scan = trial.aws.table.meta.client.get_paginator("scan")
    for page in scan.paginate(TableName=trial.stack.key_table, ConsistentRead=True):
        found += [str(each["sequencer"]) for each in page["Items"] if "sequencer" in each]
    lengths = Counter(map(len, found))
    is_known = all(re.fullmatch("[0-9A-F]+", each) for each in found)
    return seen(bool(found) and is_known, f"lengths and their numbers: {dict(lengths)}", found[:5])
