"""What is asked before anything of the trial processes an event."""

from __future__ import annotations

import time
import tomllib

from inorder import PROJECT
from inorder.model.policies import asl_file, names
from tests.conftest import picture
from tests.first_hour.questions import Answer, question, seen
from tests.first_hour.trial import PREFIX, Trial
from tests.support.state_machines import substitute

LINK_MINUTES = 15  # S3 says that its events need about five minutes after they are switched on
FEW = 10  # concurrent invocations, which many new accounts have
A_SECOND = 100  # of what quotas bound, which the trial uses at most


@question(
    "How many invocations of Lambda does the account allow at a time?",
    f"1,000, or {FEW} in a new account: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
)
def concurrency(trial: Trial) -> Answer:
    limits = trial.client("lambda").get_account_settings()["AccountLimit"]
    most = limits["ConcurrentExecutions"]
    return seen(most >= FEW, f"{most:,}", limits)


@question(
    "How high are the quotas here with which docs/cost.md computes?",
    f"{A_SECOND} a second at least, which is what 100 uploads at once need. The page has those of"
    " us-east-1; other regions and new accounts have less.",
    not_local="it has no Service Quotas.",
)
def quotas(trial: Trial) -> Answer:
    client, told = trial.client("service-quotas"), dict[str, float]()
    page = tomllib.loads((PROJECT / "bench/quotas.toml").read_text())
    rows = {name: row for name, row in page.items() if isinstance(row, dict) and "code" in row}
    for name, row in rows.items():
        named = dict(zip(("ServiceCode", "QuotaCode"), row["code"].split("/"), strict=True))
        try:
            answer = client.get_service_quota(**named)
        except client.exceptions.NoSuchResourceException:  # of some, it knows the default only
            answer = client.get_aws_default_service_quota(**named)
        told[name] = answer["Quota"]["Value"]
    texts = [f"{name}: {told[name]:,.0f} (there {rows[name]['quota']:,})" for name in told]
    return seen(min(told.values()) >= A_SECOND, "; ".join(texts), told)


@question(
    "Does Step Functions accept each definition?",
    "Nothing is diagnosed by ValidateStateMachineDefinition. Other validators check the ASL here.",
    not_local="it accepts every definition.",
)
def definitions(trial: Trial) -> Answer:
    states, told = trial.client("stepfunctions"), dict[str, object]()
    kinds = {asl_file(policy): "EXPRESS" for policy in names()}
    for file, kind in kinds.items():
        found = states.validate_state_machine_definition(
            definition=substitute(PROJECT / file, {}), type=kind
        )
        told[file] = found["diagnostics"]
    wrong = [file for file, diagnostics in told.items() if diagnostics]
    return seen(
        not wrong, f"{len(told)} definitions, of which are diagnosed: {wrong or 'none'}", told
    )


@question(
    "Can everything be deployed at once: a KMS key, and the stack?",
    "Both are created. What CloudFormation refuses is known from documents and linters only.",
    deploys=True,
)
def deployment(trial: Trial) -> Answer:
    began = time.monotonic()
    trial.deploy()
    return seen(bool(trial.is_deployed), f"after {time.monotonic() - began:.0f} s")


@question(
    "How long does S3 take until it sends events to EventBridge?",
    "About five minutes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-event-notifications-eventbridge.html",
)
def notifications(trial: Trial) -> Answer:
    began, number, keys = time.monotonic(), 0, list[str]()

    def arrived() -> bool:
        nonlocal number
        keys.append(f"{PREFIX}first-{number}.png")
        trial.put(keys[-1], picture((255, 0, 0)))
        number += 1
        time.sleep(trial.seconds(14, 1))
        return any(trial.output(key) for key in keys)

    trial.wait(arrived, LINK_MINUTES * 60, "an output of any object")
    seconds = time.monotonic() - began
    first = next(number for number, key in enumerate(keys) if trial.output(key))
    return seen(True, f"after {seconds:.0f} s, with upload {first + 1} of {len(keys)}")
