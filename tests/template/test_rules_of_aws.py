"""What AWS asks of every template, in the main one and in the examples: no engine at hand does."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.support.resolved_template import FILE, template, transformed
from tests.template.deployed import TEMPLATES, Deployed, listed

EACH_TEMPLATE = pytest.mark.parametrize("file", TEMPLATES)
RULES = "arn:aws:events:us-east-1:123456789012:rule"


@EACH_TEMPLATE
def test_an_asynchronous_function_says_how_often_it_is_invoked(file: str) -> None:
    """Else Lambda decides about the attempts, and a rule's RetryPolicy is only about reaching it.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
    """
    stack = Deployed(file=file)
    configured = stack.of("Lambda::EventInvokeConfig").values()
    targets = [target for rule in stack.of("Events::Rule").values() for target in rule["Targets"]]
    invoked = {target["Arn"].removesuffix(".Arn") for target in targets}
    asynchronous = invoked & stack.of("Lambda::Function").keys()
    assert {config["FunctionName"] for config in configured} == asynchronous
    for config in configured:
        assert {"MaximumEventAgeInSeconds", "MaximumRetryAttempts"} <= config.keys()


INVOKED = [file for file in TEMPLATES if "FunctionArn" in template(file)["Outputs"]]


@pytest.mark.parametrize("file", [FILE, *INVOKED])
def test_a_retried_event_may_come_back_to_a_function(file: str) -> None:
    """Lambda drops an event that comes to a function about 16 times in a chain, where it sees that.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html
    """
    functions = Deployed(file=file).of("Lambda::Function")
    if file in INVOKED:  # an example: this one is invoked by the main stack
        name = template(file)["Outputs"]["FunctionArn"]["Value"]["Fn::GetAtt"][0]
        functions = {name: functions[name]}
    for name, function in functions.items():
        assert function["RecursiveLoop"] == "Allow", name


def named(value: Any) -> Iterator[str]:
    """List what a resource of a transformed template refers to or depends on."""
    if isinstance(value, list):
        for part in value:
            yield from named(part)
    elif isinstance(value, dict):
        for name, argument in value.items():
            match name:
                case "Ref" | "DependsOn" | "Fn::GetAtt":
                    yield from (name.partition(".")[0] for name in listed(argument))
                case "Fn::Sub":
                    yield from re.findall(r"\$\{([\w:]+)", listed(argument)[0])
                    yield from named(listed(argument)[1:])
                case _:
                    yield from named(argument)


def earlier(resources: dict[str, Any], name: str) -> set[str]:
    """Name all that CloudFormation creates before a resource."""
    names, open_ = set[str](), [name]
    while open_:
        new = resources.keys() & set(named(resources[open_.pop()])) - names
        names |= new
        open_ += new
    return names


PAUSED = {"Paused": "true"}


@pytest.mark.parametrize(
    ("file", "parameters"), [*((file, {}) for file in TEMPLATES), (FILE, PAUSED)]
)
def test_a_queue_admits_a_rule_before_the_rule_exists(
    file: str, parameters: dict[str, str]
) -> None:
    """An event that a rule cannot send, not even to its dead-letter queue, is lost."""
    stack, resources = Deployed(file=file, **parameters), transformed(file=file)["Resources"]
    for name, rule in stack.of("Events::Rule").items():
        bus = f"/{rule['EventBusName']}" if "EventBusName" in rule else ""
        sends = [
            (target["Arn"], target.get("DeadLetterConfig", {}).get("Arn"))
            for target in rule["Targets"]
        ]
        queues = {arn.removesuffix(".Arn") for pair in sends for arn in pair if arn}
        for queue in queues & stack.of("SQS::Queue").keys():
            [(policy, admitted)] = [
                (key, statement)
                for key, of_queue in stack.of("SQS::QueuePolicy").items()
                if of_queue["Queues"] == [queue]
                for statement in of_queue["PolicyDocument"]["Statement"]
                if statement["Effect"] == "Allow"
            ]
            source = admitted["Condition"]["ArnLike"]["aws:SourceArn"]
            assert fnmatchcase(f"{RULES}{bus}/{name}", source)
            assert policy in earlier(resources, name), f"{name} does not depend on {policy}"


@pytest.mark.parametrize("rule", ["EventsRule", "RetryEventsRule"])
def test_the_function_admits_a_rule_before_it_sends(rule: str) -> None:
    """SQS refuses what the rule sends to the function, so no dead-letter queue would take it."""
    stack, resources = Deployed(**PAUSED), transformed()["Resources"]
    bus = f"/{stack[rule]['EventBusName']}" if "EventBusName" in stack[rule] else ""
    [function] = {target["Arn"] for target in stack[rule]["Targets"]} - {
        f"{name}.Arn" for name in stack.of("SQS::Queue")
    }
    [(name, admitted)] = [
        (name, permission)
        for name, permission in stack.of("Lambda::Permission").items()
        if f"{permission['FunctionName']}.Arn" == function
        and fnmatchcase(f"{RULES}{bus}/{rule}", permission["SourceArn"])
    ]
    assert name in earlier(resources, rule)
    principal = "events.amazonaws.com"
    assert (admitted["Principal"], admitted["Action"]) == (principal, "lambda:InvokeFunction")


@EACH_TEMPLATE
def test_an_event_is_switched_off_by_its_state(file: str) -> None:
    """SAM makes a schedule that is ENABLED of `Enabled: !If`, whatever the condition says."""
    for function in template(file)["Resources"].values():
        for name, event in function.get("Properties", {}).get("Events", {}).items():
            if event["Type"] in {"Schedule", "ScheduleV2", "EventBridgeRule", "CloudWatchEvent"}:
                assert "Enabled" not in event["Properties"], name


@pytest.mark.parametrize(("bucket", "state"), [("", "ENABLED"), ("theirs", "DISABLED")])
def test_the_rows_rule_is_enabled_if_they_run_alone(bucket: str, state: str) -> None:
    stack = Deployed(file="examples/rows/template.yaml", InputBucketName=bucket)
    assert stack["FunctionChanged"]["State"] == state
