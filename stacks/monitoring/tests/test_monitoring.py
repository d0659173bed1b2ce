"""The alarms, the dashboard, and the metrics that are made from logs, without CloudWatch.

Neither moto nor ministack evaluates a filter pattern, so its parts are compared with AWS's
documents, with entries of AWS's form and with the ASL files.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.loaders import Loader

from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.definition import is_end
from inorder.model.policies import asl_file, definition
from tests.support.resolved_template import broken_references, of_type, template
from tests.template.deployed import ADAPT, ALARM, FUNCTION, POLICIES, STREAM, Deployed

FILTER = "Logs::MetricFilter"
EVERYTHING = {**ADAPT, "Alarms": "all", "Dashboard": "true", "SavedQueries": "true"}
STACK = "stack"

# What AWS documents, by namespace and dimension:
# https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
DOCUMENTED = {
    ("AWS/States", "StateMachineArn"): {
        *("ExecutionsAborted", "ExecutionsFailed", "ExecutionsStarted"),
        *("ExecutionsSucceeded", "ExecutionsTimedOut", "ExecutionTime"),
    },
    ("AWS/States", "APIName"): {"ThrottledEvents"},
    ("AWS/Lambda", "FunctionName"): {"Duration", "Errors", "Invocations", "Throttles"},
    ("AWS/SQS", "QueueName"): {
        *("ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"),
        *("ApproximateNumberOfMessagesNotVisible", "NumberOfMessagesSent"),
    },
}
Metric = tuple[str, str, dict[str, str]]  # its namespace, its name and its dimensions


def watched(stack: Deployed) -> Iterator[Metric]:
    """List the metrics of the alarms."""
    for alarm in stack.of(ALARM).values():
        computed = [each["MetricStat"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        for metric in [each["Metric"] for each in computed] or [alarm]:
            dimensions = {each["Name"]: each["Value"] for each in metric.get("Dimensions", [])}
            yield metric["Namespace"], metric["MetricName"], dimensions


def shown(stack: Deployed) -> list[Metric]:
    """List the metrics of the dashboard, if there is one.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    """
    found = []
    for dashboard in stack.of("CloudWatch::Dashboard").values():
        for widget in json.loads(dashboard["DashboardBody"])["widgets"]:
            for metric in widget["properties"]["metrics"]:
                space, name, *rest = [part for part in metric if isinstance(part, str)]
                found.append((space, name, dict(zip(rest[::2], rest[1::2], strict=True))))
    return found


def is_emitted(metric: Metric, stack: Deployed) -> bool:
    """Tell whether a metric is one of AWS, of a filter, or of a function of the deployment."""
    namespace, name, dimensions = metric
    if namespace != STACK:
        [(dimension, value)] = dimensions.items()
        return bool(value) and name in DOCUMENTED[namespace, dimension]
    if "service" in dimensions:  # Powertools adds it to each metric that a function writes
        folder = dimensions["service"].replace("-", "_")
        return f'"{name}"' in (PROJECT / "functions" / folder / "app.py").read_text()
    filters = stack.of(FILTER).values()
    made = [made for each in filters for made in each["MetricTransformations"]]
    return (STACK, name) in {(each["MetricNamespace"], each["MetricName"]) for each in made}


@pytest.mark.parametrize(
    "parameters",
    [
        *({"Policy": policy, **EVERYTHING} for policy in POLICIES),
        *(
            {},
            {"Dashboard": "true"},
            {"RecordsStreamArn": STREAM},
            {"Alarms": "all", "DeploymentType": "LINEAR"},
        ),
        {**EVERYTHING, "ExecutionLogLevel": "ERROR", "HealMinutes": "0"},
        {**EVERYTHING, "Alarms": "none", "ExecutionLogLevel": "OFF"},
    ],
    ids=str,
)
def test_each_reference_and_metric_exists_and_no_alarm_that_could_never_go_off(
    parameters: dict[str, str],
) -> None:
    """For what CloudWatch accepts, see PutMetricAlarm.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
    """
    assert broken_references(parameters) == set()
    stack = Deployed(**parameters)
    metrics = [*watched(stack), *shown(stack)]
    assert [each for each in metrics if not is_emitted(each, stack)] == []
    # As many metrics of a dashboard are free: https://aws.amazon.com/cloudwatch/pricing/
    assert len(shown(stack)) <= 50
    alarms = parameters.get("Alarms", "loss")
    assert bool(stack.of(ALARM)) is (alarms != "none")
    logs_all = parameters.get("ExecutionLogLevel", "ALL") == "ALL"
    breaks = "Break Lock" in definition(parameters.get("Policy", "latest-wins"))["States"]
    assert ("BrokenLocksAlarm" in stack) is (alarms == "all" and logs_all and breaks)
    for alarm in stack.of(ALARM).values():
        assert len(alarm["AlarmDescription"]) <= 1024
        assert alarm["TreatMissingData"] == "notBreaching"
        if "Period" in alarm:
            seconds = alarm["Period"] * alarm["EvaluationPeriods"]
            assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800)
            assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"]


def test_a_function_of_ones_own_is_watched_by_its_name() -> None:
    stack = Deployed(Alarms="all", WorkFunctionArn=f"{FUNCTION}:7")
    names = {each["FunctionName"] for _, _, each in watched(stack) if "FunctionName" in each}
    assert names == {"index-documents", "RetryEventsFunction", "HealKeysFunction"}
    shipped = Deployed(Alarms="all")
    timeout = shipped["InvertImageFunction"]["Timeout"]
    assert shipped["FunctionDurationAlarm"]["Threshold"] == 0.8 * 1000 * timeout


MODEL = Loader().load_service_model("stepfunctions", "service-2")
TERM = re.compile(r'(\$[\w.]+) = "([^"*]+)"')


def test_a_filter_compares_what_an_entry_of_its_log_has() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html.

    And of an entry: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
    """
    source = (PROJECT / "functions/retry_events/app.py").read_text(encoding="utf-8")
    texts = set(re.findall(r'"(\w+)"', source))
    states = [each for policy in POLICIES for each in definition(policy)["States"].items()]
    # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    assert all(name.isascii() and len(name) <= 80 for name, _ in states)
    known = {
        "$.type": set(MODEL["shapes"]["HistoryEventType"]["enum"]),
        "$.details.name": {name for name, state in states if is_end(state)} | {"Break Lock"},
        "$.message": texts,
    }
    filters = Deployed(**EVERYTHING).of(FILTER)
    for name, each in filters.items():
        matched = re.fullmatch(r"\{ (.+) \}", each["FilterPattern"])
        assert matched
        # Without its terms, a pattern is an expression of operators and balanced brackets.
        rest = TERM.sub("0", matched[1])
        assert re.fullmatch(r"[0()&| ]+", rest)
        compile(rest.replace("&&", "and").replace("||", "or"), name, "eval")
        for selector, value in TERM.findall(matched[1]):
            assert value in known[selector]
    [age] = filters["RetryAgeFilter"]["MetricTransformations"]
    assert age["MetricValue"].removeprefix("$.") in texts
    # Each value of a dimension is paid for as a metric.
    [made] = filters["OutcomesFilter"]["MetricTransformations"]
    assert made["Dimensions"] == [{"Key": "Outcome", "Value": "$.details.name"}]
    assert "DefaultValue" not in made  # CloudWatch refuses it together with dimensions


def test_check_names_each_resource_that_lacks_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])  # without the schema, which takes a second
    text = (PROJECT / asl_file("latest-wins")).read_text(encoding="utf-8")
    for name in ("Superseded", "Claim Key", "Release Lock", "Break Lock"):
        text = text.replace(f'"{name}"', f'"New{name}"')
    file = tmp_path / asl_file("latest-wins")
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    told = re.compile(r"add .*\bNew.+ to line \d+ of the template, in (\w+)")
    assert set(told.findall("\n".join(check_file(file)))) == {
        *("OutcomesFilter", "EventsDashboard", "OutcomesQuery", "KeyHistoryQuery"),
        *("SlowestHoldersQuery", "BrokenLocksFilter", "BrokenLocksQuery"),
    }


def test_the_documents_have_each_alarm_and_what_all_of_them_cost() -> None:
    text = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+Alarm)` \|", section, re.MULTILINE)
    assert rows == [*of_type(template()["Resources"], ALARM)]
    for alarms in ("loss", "all"):
        stacks = (Deployed(Alarms=alarms, AdaptRecords=adapt) for adapt in ("false", "true"))
        counts = [len(stack.of(ALARM)) for stack in stacks]
        costs = " | ".join(f"{count} | {count / 10:.2f}" for count in counts)
        assert f"| `{alarms}` | {costs} |" in section
