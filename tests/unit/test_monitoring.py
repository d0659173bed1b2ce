"""The dashboard, the alarms, the metrics from the logs and the saved queries, without CloudWatch.

Neither moto nor ministack evaluates a filter pattern or these queries, so their parts are compared
with AWS's documents, with entries of AWS's form and with the ASL files.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from botocore.loaders import Loader

from inorder import PROJECT
from inorder.asl import check_file
from inorder.asl.definition import is_end
from inorder.model.execution import ENDS
from inorder.model.policies import asl_file, definition, like
from inorder.resolved_template import Json, broken_references, of_type, resources_with, template

POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]
RETRYING = [policy for policy in POLICIES if policy not in like("uncoordinated")]
LEVELS: list[str] = template()["Parameters"]["ExecutionLogLevel"]["AllowedValues"]
EVERYTHING = {
    "Alarms": "all",
    "Dashboard": "true",
    "SavedQueries": "true",
    "AdaptRecords": "true",
}
STACK = "stack"

# What AWS documents, by namespace and dimension:
# https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
DOCUMENTED = {
    ("AWS/States", "StateMachineArn"): {
        "ExecutionsAborted",
        "ExecutionsFailed",
        "ExecutionsStarted",
        "ExecutionsSucceeded",
        "ExecutionsTimedOut",
        "ExecutionTime",
    },
    ("AWS/States", "APIName"): {"ThrottledEvents"},
    ("AWS/Lambda", "FunctionName"): {"Duration", "Errors", "Invocations", "Throttles"},
    ("AWS/SQS", "QueueName"): {
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesVisible",
    },
}
STATISTICS = {"Maximum", "Sum", "p50", "p99"}
OUTCOMES = {
    name
    for policy in RETRYING
    for name, state in definition(policy)["States"].items()
    if is_end(state)
}
Metric = tuple[str, str, dict[str, str]]  # its namespace, its name and its dimensions


def widgets(resources: Json) -> list[Json]:
    [board] = of_type(resources, "CloudWatch::Dashboard").values()
    body: Json = json.loads(board["DashboardBody"])
    return list(body["widgets"])


def shown(resources: Json) -> Iterator[Metric]:
    """List the metrics of the dashboard.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    """
    for widget in widgets(resources):
        for metric in widget["properties"]["metrics"]:
            texts = [part for part in metric if isinstance(part, str)]
            assert metric[len(texts) :] == [part for part in metric if isinstance(part, dict)][:1]
            yield texts[0], texts[1], dict(zip(texts[2::2], texts[3::2], strict=True))


def watched(resources: Json) -> Iterator[Metric]:
    """List the metrics of the alarms."""
    for alarm in of_type(resources, "CloudWatch::Alarm").values():
        dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        yield alarm["Namespace"], alarm["MetricName"], dimensions


def is_emitted(metric: Metric, resources: Json) -> bool:
    """Tell whether a metric is one of AWS, of a filter, or of a function of the deployment."""
    namespace, name, dimensions = metric
    if namespace != STACK:
        [(dimension, value)] = dimensions.items()
        return bool(value) and name in DOCUMENTED[namespace, dimension]
    for each in of_type(resources, "Logs::MetricFilter").values():
        [made] = each["MetricTransformations"]
        if (made["MetricNamespace"], made["MetricName"]) == (STACK, name):
            return {part["Key"] for part in made.get("Dimensions", [])} == set(dimensions)
    # Powertools adds the service to each metric that a function writes.
    folder = dimensions.get("service", "").replace("-", "_")
    source = PROJECT / "functions" / folder / "app.py"
    return set(dimensions) == {"service"} and f'"{name}"' in source.read_text(encoding="utf-8")


# --- Parameters -----------------------------------------------------------------------------------


CHOICES = [
    {},
    {"Dashboard": "true"},
    {"Alarms": "all"},
    EVERYTHING,
    {**EVERYTHING, "ExecutionLogLevel": "ERROR", "HealMinutes": "0"},
    {**EVERYTHING, "Alarms": "none", "ExecutionLogLevel": "OFF"},
]


@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_is_chosen_each_reference_and_each_metric_exists(policy: str) -> None:
    for choice in CHOICES:
        parameters = {"Policy": policy, **choice}
        assert broken_references(parameters) == set(), choice
        resources = resources_with(parameters)
        metrics = list(watched(resources))
        if "EventsDashboard" in resources:
            metrics += shown(resources)
        assert [each for each in metrics if not is_emitted(each, resources)] == []
        assert bool(metrics) is (choice.get("Alarms") != "none" or "EventsDashboard" in resources)


def test_by_default_nothing_is_added_that_costs_more_than_the_alarms_before_a_loss() -> None:
    resources = resources_with({})
    for kind in ("CloudWatch::Dashboard", "Logs::MetricFilter", "Logs::QueryDefinition"):
        assert of_type(resources, kind) == {}
    assert of_type(resources, "CloudWatch::Alarm").keys() == {
        *("ParkedEventsAlarm", "UndeliveredEventsAlarm", "RetryEventsAlarm", "RecordsAlarm"),
        *("RetryEventsErrorsAlarm", "UnadaptedRecordsAlarm", "HealKeysErrorsAlarm"),
    }
    assert of_type(resources_with({**EVERYTHING, "Alarms": "none"}), "CloudWatch::Alarm") == {}


def test_an_alarm_that_could_never_go_off_does_not_exist() -> None:
    for level in LEVELS:
        resources = resources_with({"Alarms": "all", "ExecutionLogLevel": level})
        assert ("BrokenLocksAlarm" in resources) is (level == "ALL")
        assert ("BrokenLocksFilter" in resources) is (level == "ALL")
    for policy in POLICIES:
        resources = resources_with({"Policy": policy, **EVERYTHING})
        assert ("BrokenLocksAlarm" in resources) is ("Break Lock" in states_of(policy))
    assert "HealKeysErrorsAlarm" not in resources_with({"Alarms": "all", "HealMinutes": "0"})


def test_the_documents_have_each_alarm_and_what_all_of_them_cost() -> None:
    text = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+Alarm)` \|", section, re.MULTILINE)
    assert rows == [*of_type(template()["Resources"], "CloudWatch::Alarm")]
    for alarms in ("loss", "all"):
        cells = []
        for adapt in ("false", "true"):
            resources = resources_with({"Alarms": alarms, "AdaptRecords": adapt})
            count = len(of_type(resources, "CloudWatch::Alarm"))
            cells += [f"{count}", f"{count / 10:.2f}"]
        assert f"| `{alarms}` | {' | '.join(cells)} |" in section


def test_the_description_of_an_alarm_is_short_enough() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html."""
    for alarm in of_type(resources_with(EVERYTHING), "CloudWatch::Alarm").values():
        assert len(alarm["AlarmDescription"]) <= 1024
        seconds = alarm["Period"] * alarm["EvaluationPeriods"]
        assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800)
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"]
        assert alarm["TreatMissingData"] == "notBreaching"


# --- The function that does the work --------------------------------------------------------------


@pytest.mark.parametrize("policy", RETRYING)
def test_the_functions_duration_is_compared_with_its_timeout(policy: str) -> None:
    resources = resources_with({"Policy": policy, **EVERYTHING})
    alarm = resources["FunctionDurationAlarm"]["Properties"]
    [dimension] = alarm["Dimensions"]
    timeout = resources[dimension["Value"]]["Properties"]["Timeout"] * 1000
    assert alarm["Threshold"] == 0.8 * timeout
    assert timeout in [
        line["value"]
        for widget in widgets(resources)
        for line in widget["properties"].get("annotations", {}).get("horizontal", [])
    ]


@pytest.mark.parametrize("qualifier", ["", ":7", ":live"])
def test_a_function_of_ones_own_is_watched_by_its_name(qualifier: str) -> None:
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:index-documents{qualifier}"
    resources = resources_with({**EVERYTHING, "WorkFunctionArn": arn})
    names = {
        dimensions["FunctionName"]
        for _, _, dimensions in [*shown(resources), *watched(resources)]
        if "FunctionName" in dimensions
    }
    assert names == {
        "index-documents",
        *("RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction"),
    }


# --- The dashboard --------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_the_dashboard_is_valid_and_its_widgets_do_not_overlap(policy: str) -> None:
    resources = resources_with({"Policy": policy, **EVERYTHING})
    boxes = widgets(resources)
    for one, other in combinations(boxes, 2):
        assert any(
            one[at] + one[size] <= other[at] or other[at] + other[size] <= one[at]
            for at, size in (("x", "width"), ("y", "height"))
        )
    for box in boxes:
        assert (box["type"], box["x"] + box["width"] <= 24) == ("metric", True)
        properties = box["properties"]
        assert (properties["region"], properties["view"]) == ("us-east-1", "timeSeries")
        parts = [part for each in properties["metrics"] for part in each]
        given = {part["stat"] for part in parts if isinstance(part, dict) and "stat" in part}
        assert {properties["stat"], *given} <= STATISTICS
    metrics = list(shown(resources))
    # A free dashboard has at most 50 metrics: https://aws.amazon.com/cloudwatch/pricing/
    assert len(metrics) <= 50
    dimensions = [each for _, name, each in metrics if name == "Outcomes"]
    assert [set(each) for each in dimensions] == [{"Outcome"}] * len(OUTCOMES)
    assert {each["Outcome"] for each in dimensions} == OUTCOMES


# --- Metrics from the logs ------------------------------------------------------------------------

MODEL = Loader().load_service_model("stepfunctions", "service-2")
HISTORY_TYPES = set(MODEL["shapes"]["HistoryEventType"]["enum"])
SELECTORS = {"$.type", "$.details.name", "$.message"}
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html
TERM = re.compile(r'(?P<selector>\$[\w.]+) = "(?P<value>[^"*]+)"')


def states_of(policy: str) -> Json:
    states: Json = definition(policy)["States"]
    return states


def pattern_of(name: str) -> str:
    properties = resources_with(EVERYTHING)[name]["Properties"]
    pattern: str = properties["FilterPattern"]
    return pattern


@pytest.mark.parametrize("name", of_type(template()["Resources"], "Logs::MetricFilter"))
def test_a_filter_pattern_has_the_documented_syntax(name: str) -> None:
    pattern = pattern_of(name)
    assert len(pattern) <= 1024
    matched = re.fullmatch(r"\{ (.+) \}", pattern)
    assert matched
    terms = TERM.sub("0", matched[1])
    assert re.fullmatch(r"[0()&| ]+", terms)
    # What is left is an expression of terms, operators and balanced brackets.
    compile(terms.replace("&&", "and").replace("||", "or"), name, "eval")
    assert {each["selector"] for each in TERM.finditer(pattern)} <= SELECTORS
    for each in TERM.finditer(pattern):
        if each["selector"] == "$.type":
            assert each["value"] in HISTORY_TYPES


def test_the_filter_of_outcomes_matches_the_ends_of_the_policies_and_nothing_else() -> None:
    """Each value of a dimension is paid for as a metric; the log has its value in a field."""
    terms = [
        (each["selector"], each["value"]) for each in TERM.finditer(pattern_of("OutcomesFilter"))
    ]
    assert terms[:2] == [("$.type", f"{each}StateEntered") for each in ("Pass", "Fail")]
    assert {selector for selector, _ in terms[2:]} == {"$.details.name"}
    assert {value for _, value in terms[2:]} == OUTCOMES
    resources = resources_with(EVERYTHING)
    [made] = resources["OutcomesFilter"]["Properties"]["MetricTransformations"]
    assert made["Dimensions"] == [{"Key": "Outcome", "Value": "$.details.name"}]
    assert "DefaultValue" not in made  # CloudWatch refuses it together with dimensions
    [broken] = resources["BrokenLocksFilter"]["Properties"]["MetricTransformations"]
    assert "Dimensions" not in broken


@pytest.mark.parametrize(
    ("old", "new", "resources"),
    [
        (
            "Superseded",
            "Outdated",
            {"OutcomesFilter", "EventsDashboard", "OutcomesQuery", "KeyHistoryQuery"},
        ),
        ("Claim Key", "Take Key", {"KeyHistoryQuery"}),
        ("Release Lock", "Free Key", {"SlowestHoldersQuery"}),
        ("Break Lock", "Force Lock", {"BrokenLocksFilter", "BrokenLocksQuery", "KeyHistoryQuery"}),
    ],
)
def test_check_names_the_line_of_each_resource_that_lacks_a_state(
    tmp_path: Path, old: str, new: str, resources: set[str]
) -> None:
    (tmp_path / "statemachine").mkdir()
    file = tmp_path / asl_file("latest-wins")
    text = (PROJECT / asl_file("latest-wins")).read_text(encoding="utf-8")
    file.write_text(text.replace(f'"{old}"', f'"{new}"'), encoding="utf-8")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    lines = (tmp_path / "template.yaml").read_text(encoding="utf-8").splitlines()
    told = re.compile(r"add (.+) to line (\d+) of the template, in (\w+)")
    found = told.findall("\n".join(check_file(file)))
    assert {resource for _, _, resource in found} == resources
    # With what the findings say, there are none.
    for form, line, _ in found:
        before = lines[int(line) - 1]
        named = re.findall(re.escape(form).replace(re.escape(new), '[^"]+'), before)[-1]
        lines[int(line) - 1] = before.replace(named, f"{named} {form}")
    (tmp_path / "template.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert check_file(file) == []


def test_the_age_of_a_retry_is_in_the_lines_that_the_filter_finds() -> None:
    source = (PROJECT / "functions/retry_events/app.py").read_text(encoding="utf-8")
    [made] = resources_with(EVERYTHING)["RetryAgeFilter"]["Properties"]["MetricTransformations"]
    assert made["MetricValue"] == "$.age_seconds"
    names = {each["value"] for each in TERM.finditer(pattern_of("RetryAgeFilter"))}
    for text in ("age_seconds", *names):
        assert f'"{text}"' in source


def test_the_name_of_a_state_is_short_and_ascii() -> None:
    """CloudWatch logs nothing of other names.

    https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    """
    names = {name for policy in POLICIES for name in states_of(policy)}
    assert [name for name in names if not name.isascii() or len(name) > 80] == []


# --- Saved queries --------------------------------------------------------------------------------

QUERIES: Json = of_type(template()["Resources"], "Logs::QueryDefinition")
EACH_QUERY = pytest.mark.parametrize("name", QUERIES)
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
COMMANDS = {"fields", "filter", "parse", "display", "stats", "sort", "limit"}
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-operations-functions.html
FUNCTIONS = {"coalesce", "count", "datefloor", "earliest", "latest", "max", "min"}
WORDS = COMMANDS | FUNCTIONS | {"and", "or", "not", "like", "in", "as", "by", "asc", "desc"}
# Of an entry: https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
FIELDS = {
    *("@timestamp", "@message", "type", "execution_arn"),
    *("details.name", "details.input", "details.output"),
}
QUOTED = re.compile(r'/(?:\\.|[^/\\])+/|"[^"]*"')
EVENT = '{"detail": {"bucket": {"name": "b"}, "object": {"key": "f/k", "sequencer": "0A"}}}'
DATA = json.dumps(
    {"object_key": "b/f/k", "sequencer": "0A", "lock_token": "mine"}
    | {"watched_lock": {"lock_token": "theirs", "break_at_poll": 29}}
)


def lines_of(name: str) -> list[str]:
    text: str = QUERIES[name]["QueryString"]
    first, *others = text.rstrip("\n").split("\n")
    assert all(line.startswith("| ") for line in others)
    return [first, *(line.removeprefix("| ") for line in others)]


def expressions(name: str) -> list[re.Pattern[str]]:
    """Give the regular expressions of a query, as Python writes them."""
    found = [each for each in QUOTED.findall(QUERIES[name]["QueryString"]) if each[0] == "/"]
    return [re.compile(each[1:-1].replace("(?<", "(?P<")) for each in found]


@EACH_QUERY
def test_a_query_has_documented_commands_functions_and_fields_and_names_that_exist(
    name: str,
) -> None:
    assert len(QUERIES[name]["QueryString"]) <= 10_000
    made = {group for each in expressions(name) for group in each.groupindex}
    for line in lines_of(name):
        assert line.partition(" ")[0] in COMMANDS
        bare = QUOTED.sub("", line)
        made |= set(re.findall(r" as (\w+)", bare))
        assert set(re.findall(r"(\w+)\(", bare)) <= FUNCTIONS | {"in"}
        words = set(re.findall(r"[@a-z][\w.@]*", re.sub(r"\b\d+[a-z]*\b", "", bare)))
        assert words - WORDS - made <= FIELDS
        assert bare.count("(") == bare.count(")")
        assert bare.count("[") == bare.count("]")
    states = {state for policy in POLICIES for state in states_of(policy)}
    parameters = {f"{{{{{each['Name']}}}}}" for each in QUERIES[name].get("Parameters", [])}
    texts = {each[1:-1] for each in QUOTED.findall(QUERIES[name]["QueryString"]) if each[0] == '"'}
    assert texts <= states | HISTORY_TYPES | {"StateEntered"} | parameters
    assert parameters <= texts


def test_a_query_finds_the_key_the_sequencer_and_the_lock_in_an_entry() -> None:
    [sequencer] = expressions("KeyHistoryQuery")
    for text in (EVENT, DATA, DATA.replace(" ", "")):
        found = sequencer.search(text)
        assert found
        assert found["sequencer"] == "0A"
    [held] = expressions("SlowestHoldersQuery")
    refusal, broken, lock = expressions("BrokenLocksQuery")
    for text in (DATA, DATA.replace(" ", "")):
        for key in (held.search(text), broken.search(text)):
            assert key
            assert key["key"] == "b/f/k"
        watched_lock = lock.search(text)
        assert watched_lock
        assert watched_lock.groups() == ("theirs",)
        assert not refusal.search(text)
    assert refusal.search(json.dumps({"refusal": {"Error": "x"}}).replace(" ", ""))
    assert not refusal.search(json.dumps({"object_key": 'b/"refusal":'}))


def test_the_query_of_outcomes_knows_executions_that_end_in_no_state() -> None:
    outcomes = " ".join(lines_of("OutcomesQuery"))
    for end in ("ExecutionTimedOut", "ExecutionAborted"):
        assert end in ENDS
        assert f'"{end}"' in outcomes
