"""The alarms, the dashboard, the metrics that are made from logs, and the queries of the documents.

Neither moto nor ministack evaluates a filter pattern or a query, so their parts are compared with
AWS's documents, with entries of AWS's form and with the ASL files.
"""

import json
import re
from collections.abc import Iterator

import pytest
from botocore.loaders import Loader

from inorder import PROJECT
from inorder.asl.definition import is_end
from inorder.model.policies import definition
from tests.support.resolved_template import of_type, resolve, template
from tests.template.deployed import ALARM, FUNCTION, POLICIES, Deployed

FILE = "stacks/monitoring/template.yaml"
WATCHING = Deployed(file=FILE)
MAIN = Deployed()
STACK = "inorder"  # its name is the namespace of the metrics
FILTERS = WATCHING.of("Logs::MetricFilter")
STATES = [each for policy in POLICIES for each in definition(policy)["States"].items()]
ENDS = {name for name, state in STATES if is_end(state)}
OPERATE = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")

# What AWS documents, by namespace and dimension:
# https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
DOCUMENTED = {
    ("AWS/States", "APIName"): {"ThrottledEvents"},
    ("AWS/Lambda", "FunctionName"): {"Duration", "Errors", "Invocations", "Throttles"},
    ("AWS/SQS", "QueueName"): {
        *("ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"),
        "ApproximateNumberOfMessagesNotVisible",
    },
}
Metric = tuple[str, str, dict[str, str]]  # its namespace, its name and its dimensions


def watched(stack: Deployed) -> Iterator[Metric]:
    """List the metrics of the alarms."""
    for alarm in stack.of(ALARM).values():
        dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        yield alarm["Namespace"], alarm["MetricName"], dimensions


def shown() -> Iterator[Metric]:
    """List the metrics of the dashboard.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    """
    for widget in json.loads(WATCHING["EventsDashboard"]["DashboardBody"])["widgets"]:
        for metric in widget["properties"]["metrics"]:
            space, name, *rest = [part for part in metric if isinstance(part, str)]
            yield space, name, dict(zip(rest[::2], rest[1::2], strict=True))


def is_emitted(metric: Metric) -> bool:
    """Tell whether a metric is one of AWS, of a filter, or of a function of the main stack."""
    namespace, name, dimensions = metric
    if namespace.startswith("AWS/"):
        [(dimension, value)] = dimensions.items()
        return bool(value) and name in DOCUMENTED[namespace, dimension]
    assert namespace == STACK
    if "service" in dimensions:  # Powertools adds it to each metric that a function writes
        folder = dimensions["service"].replace("-", "_")
        return f'"{name}"' in (PROJECT / "functions" / folder / "app.py").read_text()
    for each in FILTERS.values():
        [made] = each["MetricTransformations"]
        if (made["MetricNamespace"], made["MetricName"]) == (namespace, name):
            keys = [by["Key"] for by in made.get("Dimensions", [])]
            matched = all(f'"{value}"' in each["FilterPattern"] for value in dimensions.values())
            return matched and keys == [*dimensions]
    return False


def test_each_metric_exists_and_each_alarm_is_one_that_cloudwatch_accepts() -> None:
    """For what CloudWatch accepts, see PutMetricAlarm.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
    """
    metrics = [*watched(WATCHING), *shown()]
    assert [each for each in metrics if not is_emitted(each)] == []
    # As many metrics of a dashboard are free: https://aws.amazon.com/cloudwatch/pricing/
    assert len([*shown()]) <= 50
    assert MAIN.variables("HealKeysFunction")["POWERTOOLS_METRICS_NAMESPACE"] == "stack"
    for alarm in [*MAIN.of(ALARM).values(), *WATCHING.of(ALARM).values()]:
        assert len(alarm["AlarmDescription"]) <= 1024
        assert alarm["TreatMissingData"] == "notBreaching"
        seconds = alarm["Period"] * alarm["EvaluationPeriods"]
        assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800)
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"]


def test_another_policy_blinds_no_alarm_and_each_watches_what_the_main_stack_has() -> None:
    assert not any("StateMachineArn" in dimensions for _, _, dimensions in watched(WATCHING))
    names = {value for _, _, each in watched(WATCHING) for value in each.values() if "." in value}
    assert names == {
        f"{STACK}.{output}"
        for output in ("ParkedEventsQueueName", "UndeliveredEventsQueueName", "WorkFunctionName")
    }


@pytest.mark.parametrize(
    ("arn", "name"),
    [
        ("", "InvertImageFunction"),
        (FUNCTION, "index-documents"),
        (f"{FUNCTION}:7", "index-documents"),
    ],
)
def test_a_function_of_ones_own_is_watched_by_its_name(arn: str, name: str) -> None:
    outputs = resolve(template(), {"WorkFunctionArn": arn})["Outputs"]
    assert outputs["WorkFunctionName"]["Value"] == name


MODEL = Loader().load_service_model("stepfunctions", "service-2")
TYPES = set(MODEL["shapes"]["HistoryEventType"]["enum"])
TERM = re.compile(r'(\$[\w.]+) = "([^"*]+)"')


def test_a_filter_compares_what_an_entry_of_its_log_has() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html.

    And of an entry: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
    """
    source = (PROJECT / "functions/retry_events/app.py").read_text(encoding="utf-8")
    texts = set(re.findall(r'"(\w+)"', source))
    known = {"$.type": TYPES, "$.details.name": ENDS | {"Break Lock"}, "$.message": texts}
    for name, each in FILTERS.items():
        matched = re.fullmatch(r"\{ (.+) \}", each["FilterPattern"])
        assert matched
        # Without its terms, a pattern is an expression of operators and balanced brackets.
        rest = TERM.sub("0", matched[1])
        assert re.fullmatch(r"[0()&| ]+", rest)
        compile(rest.replace("&&", "and").replace("||", "or"), name, "eval")
        for selector, value in TERM.findall(matched[1]):
            assert value in known[selector]
        of_states = "$.details" in matched[1] or "$.type" in matched[1]
        assert each["LogGroupName"] == f"{STACK}.{'' if of_states else 'Function'}LogGroupName"
        [made] = each["MetricTransformations"]
        # CloudWatch refuses a default together with dimensions.
        assert not {"DefaultValue", "Dimensions"} <= made.keys()
    [age] = FILTERS["RetryAgeFilter"]["MetricTransformations"]
    assert age["MetricValue"].removeprefix("$.") in texts


def test_a_query_of_the_documents_names_the_states_of_the_state_machines() -> None:
    """A query that names a missing state, or not each end, answers with less and says nothing."""
    section = OPERATE.partition("\n## Queries\n")[2].partition("\n## ")[0]
    queries = re.findall(r"```\n(.+?)```", section, re.DOTALL)
    lists = re.findall(r"details\.name (?:=|in) (.+)", "\n".join(queries))
    named = [set(re.findall(r'"([A-Z][\w ?]+)"', names)) - TYPES for names in lists]
    assert len(queries) == 3
    assert set.union(*named) <= {name for name, _ in STATES}
    assert [names for names in named if "Processed" in names and not names >= ENDS] == []


def test_the_documents_have_each_alarm_and_what_all_of_them_cost() -> None:
    section = OPERATE.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+Alarm)` \|", section, re.MULTILINE)
    found = []
    for folder in ("", "stacks/monitoring/", "stacks/records/", "stacks/audit/"):
        alarms = [*of_type(template(f"{folder}template.yaml")["Resources"], ALARM)]
        found += alarms
        assert f"| {len(alarms)} | {len(alarms) / 10:.2f} |" in section
    assert rows == found
