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

from bench.resolved_template import Json, broken_references, of_type, resources_with, template
from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.definition import is_end
from inorder.model.execution import ENDS
from inorder.model.policies import asl_file, definition, like

POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]
RETRYING = [policy for policy in POLICIES if policy not in like("uncoordinated")]
ALARM, FILTER, QUERY = "CloudWatch::Alarm", "Logs::MetricFilter", "Logs::QueryDefinition"
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
STATISTICS = {"Maximum", "Sum", "p50", "p99"}
Metric = tuple[str, str, dict[str, str]]  # its namespace, its name and its dimensions


def states_of(policy: str) -> Json:
    states: Json = definition(policy)["States"]
    return states


OUTCOMES = {
    name for policy in RETRYING for name, state in states_of(policy).items() if is_end(state)
}


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
    for alarm in of_type(resources, ALARM).values():
        dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        yield alarm["Namespace"], alarm["MetricName"], dimensions


def is_emitted(metric: Metric, resources: Json) -> bool:
    """Tell whether a metric is one of AWS, of a filter, or of a function of the deployment."""
    namespace, name, dimensions = metric
    if namespace != STACK:
        [(dimension, value)] = dimensions.items()
        return bool(value) and name in DOCUMENTED[namespace, dimension]
    for each in of_type(resources, FILTER).values():
        [made] = each["MetricTransformations"]
        if (made["MetricNamespace"], made["MetricName"]) == (STACK, name):
            return {part["Key"] for part in made.get("Dimensions", [])} == set(dimensions)
    # Powertools adds the service to each metric that a function writes.
    folder = dimensions.get("service", "").replace("-", "_")
    source = PROJECT / "functions" / folder / "app.py"
    return set(dimensions) == {"service"} and f'"{name}"' in source.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "parameters",
    [
        *({"Policy": policy, **EVERYTHING} for policy in POLICIES),
        *({}, {"Dashboard": "true"}, {"Alarms": "all"}),
        {"Alarms": "all", "ExecutionLogLevel": "ERROR"},
        {**EVERYTHING, "ExecutionLogLevel": "ERROR", "HealMinutes": "0"},
        {**EVERYTHING, "Alarms": "none", "ExecutionLogLevel": "OFF"},
    ],
    ids=str,
)
def test_each_reference_and_each_metric_exists_and_no_alarm_that_could_never_go_off(
    parameters: dict[str, str],
) -> None:
    assert broken_references(parameters) == set()
    resources = resources_with(parameters)
    metrics = [*watched(resources), *(shown(resources) if "Dashboard" in parameters else [])]
    assert [each for each in metrics if not is_emitted(each, resources)] == []
    alarms = parameters.get("Alarms", "loss")
    assert bool(of_type(resources, ALARM)) is (alarms != "none")
    logs_all = parameters.get("ExecutionLogLevel", "ALL") == "ALL"
    breaks = "Break Lock" in states_of(parameters.get("Policy", "latest-wins"))
    assert ("BrokenLocksAlarm" in resources) is (alarms == "all" and logs_all and breaks)
    if "Dashboard" not in parameters:  # which shows it, too
        assert ("BrokenLocksFilter" in resources) is ("BrokenLocksAlarm" in resources)
    heals = parameters.get("HealMinutes") != "0"
    assert ("HealKeysErrorsAlarm" in resources) is (heals and alarms != "none")


def test_by_default_nothing_is_added_that_costs_more_than_the_alarms_before_a_loss() -> None:
    resources = resources_with({})
    for kind in ("CloudWatch::Dashboard", FILTER, QUERY):
        assert of_type(resources, kind) == {}
    assert of_type(resources, ALARM).keys() == {
        *("ParkedEventsAlarm", "UndeliveredEventsAlarm", "RetryEventsAlarm", "RecordsAlarm"),
        *("RetryEventsErrorsAlarm", "UnadaptedRecordsAlarm", "HealKeysErrorsAlarm"),
    }


def test_the_documents_have_each_alarm_and_what_all_of_them_cost() -> None:
    text = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+Alarm)` \|", section, re.MULTILINE)
    assert rows == [*of_type(template()["Resources"], ALARM)]
    for alarms in ("loss", "all"):
        cells = []
        for adapt in ("false", "true"):
            count = len(of_type(resources_with({"Alarms": alarms, "AdaptRecords": adapt}), ALARM))
            cells += [f"{count}", f"{count / 10:.2f}"]
        assert f"| `{alarms}` | {' | '.join(cells)} |" in section


def test_an_alarm_has_what_cloudwatch_accepts() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html."""
    for alarm in of_type(resources_with(EVERYTHING), ALARM).values():
        assert len(alarm["AlarmDescription"]) <= 1024
        seconds = alarm["Period"] * alarm["EvaluationPeriods"]
        assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800)
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"]
        assert alarm["TreatMissingData"] == "notBreaching"


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


@pytest.mark.parametrize("qualifier", ["", ":7"])
def test_a_function_of_ones_own_is_watched_by_its_name(qualifier: str) -> None:
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:index-documents{qualifier}"
    resources = resources_with({**EVERYTHING, "WorkFunctionArn": arn})
    metrics = [*shown(resources), *watched(resources)]
    names = {each["FunctionName"] for _, _, each in metrics if "FunctionName" in each}
    others = ("RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction")
    assert names == {"index-documents", *others}


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


MODEL = Loader().load_service_model("stepfunctions", "service-2")
HISTORY_TYPES = set(MODEL["shapes"]["HistoryEventType"]["enum"])
SELECTORS = {"$.type", "$.details.name", "$.message"}
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html
TERM = re.compile(r'(?P<selector>\$[\w.]+) = "(?P<value>[^"*]+)"')


def pattern_of(name: str) -> str:
    pattern: str = resources_with(EVERYTHING)[name]["Properties"]["FilterPattern"]
    return pattern


def made_by(name: str) -> Json:
    [made] = resources_with(EVERYTHING)[name]["Properties"]["MetricTransformations"]
    found: Json = made
    return found


@pytest.mark.parametrize("name", of_type(template()["Resources"], FILTER))
def test_a_filter_pattern_has_the_documented_syntax(name: str) -> None:
    pattern = pattern_of(name)
    assert len(pattern) <= 1024
    matched = re.fullmatch(r"\{ (.+) \}", pattern)
    assert matched
    terms = TERM.sub("0", matched[1])
    assert re.fullmatch(r"[0()&| ]+", terms)
    # What is left is an expression of terms, operators and balanced brackets.
    compile(terms.replace("&&", "and").replace("||", "or"), name, "eval")
    for each in TERM.finditer(pattern):
        assert each["selector"] in SELECTORS
        assert each["selector"] != "$.type" or each["value"] in HISTORY_TYPES


def test_the_filter_of_outcomes_matches_the_ends_of_the_policies_and_nothing_else() -> None:
    """Each value of a dimension is paid for as a metric; the log has its value in a field."""
    terms = [
        (each["selector"], each["value"]) for each in TERM.finditer(pattern_of("OutcomesFilter"))
    ]
    assert terms[:2] == [("$.type", f"{each}StateEntered") for each in ("Pass", "Fail")]
    assert {selector for selector, _ in terms[2:]} == {"$.details.name"}
    assert {value for _, value in terms[2:]} == OUTCOMES
    made = made_by("OutcomesFilter")
    assert made["Dimensions"] == [{"Key": "Outcome", "Value": "$.details.name"}]
    assert "DefaultValue" not in made  # CloudWatch refuses it together with dimensions
    assert "Dimensions" not in made_by("BrokenLocksFilter")


def test_the_age_of_a_retry_is_in_the_lines_that_the_filter_finds() -> None:
    source = (PROJECT / "functions/retry_events/app.py").read_text(encoding="utf-8")
    assert made_by("RetryAgeFilter")["MetricValue"] == "$.age_seconds"
    for each in TERM.finditer(pattern_of("RetryAgeFilter")):
        assert f'"{each["value"]}"' in source
    assert '"age_seconds"' in source


def test_check_names_the_line_of_each_resource_that_lacks_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])  # without the schema, which takes a second
    renamed = {
        "Superseded": "Outdated",
        "Claim Key": "Take Key",
        "Release Lock": "Free Key",
        "Break Lock": "Force Lock",
    }
    (tmp_path / "statemachine").mkdir()
    file = tmp_path / asl_file("latest-wins")
    text = (PROJECT / asl_file("latest-wins")).read_text(encoding="utf-8")
    for old, new in renamed.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    file.write_text(text, encoding="utf-8")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    lines = (tmp_path / "template.yaml").read_text(encoding="utf-8").splitlines()
    told = re.compile(r"add (.+) to line (\d+) of the template, in (\w+)")
    found = told.findall("\n".join(check_file(file)))
    named = {
        new: {resource for form, _, resource in found if new in form} for new in renamed.values()
    }
    assert named == {
        "Outdated": {"OutcomesFilter", "EventsDashboard", "OutcomesQuery", "KeyHistoryQuery"},
        "Take Key": {"KeyHistoryQuery"},
        "Free Key": {"SlowestHoldersQuery"},
        "Force Lock": {"BrokenLocksFilter", "BrokenLocksQuery", "KeyHistoryQuery"},
    }
    # With what the findings say, there are none.
    for form, line, _ in found:
        new = next(each for each in renamed.values() if each in form)
        before = lines[int(line) - 1]
        there = re.findall(re.escape(form).replace(re.escape(new), '[^"]+'), before)[-1]
        lines[int(line) - 1] = before.replace(there, f"{there} {form}")
    (tmp_path / "template.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert check_file(file) == []


def test_the_name_of_a_state_is_short_and_ascii() -> None:
    """CloudWatch logs nothing of other names.

    https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    """
    names = {name for policy in POLICIES for name in states_of(policy)}
    assert [name for name in names if not name.isascii() or len(name) > 80] == []


QUERIES: Json = of_type(template()["Resources"], QUERY)
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
COMMANDS = {"fields", "filter", "parse", "display", "stats", "sort", "limit"}
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


def quoted(name: str, mark: str) -> list[str]:
    """Give the regular expressions, or the texts, of a query."""
    found: list[str] = QUOTED.findall(QUERIES[name]["QueryString"])
    return [each[1:-1] for each in found if each[0] == mark]


def expressions(name: str) -> list[re.Pattern[str]]:
    """Give the regular expressions of a query, as Python writes them."""
    return [re.compile(each.replace("(?<", "(?P<")) for each in quoted(name, "/")]


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_documented_commands_and_fields_and_names_that_exist(name: str) -> None:
    text: str = QUERIES[name]["QueryString"]
    assert len(text) <= 10_000
    for line in text.rstrip("\n").split("\n| "):
        assert line.partition(" ")[0] in COMMANDS
        bare = QUOTED.sub("", line)
        assert set(re.findall(r"@\w+|details\.\w+|\w+_arn", bare)) <= FIELDS
        assert bare.count("(") == bare.count(")")
        assert bare.count("[") == bare.count("]")
    states = {state for policy in POLICIES for state in states_of(policy)}
    parameters = {f"{{{{{each['Name']}}}}}" for each in QUERIES[name].get("Parameters", [])}
    assert (
        parameters
        <= set(quoted(name, '"'))
        <= states | HISTORY_TYPES | parameters | {"StateEntered"}
    )


def test_a_query_finds_the_key_the_sequencer_and_the_lock_in_an_entry() -> None:
    [sequencer] = expressions("KeyHistoryQuery")
    [held] = expressions("SlowestHoldersQuery")
    refusal, broken, lock = expressions("BrokenLocksQuery")
    for text in (DATA, DATA.replace(" ", "")):
        assert sequencer.findall(text) == sequencer.findall(EVENT) == ["0A"]
        assert held.findall(text) == broken.findall(text) == ["b/f/k"]
        assert lock.findall(text) == ["theirs"]
    assert refusal.search(json.dumps({"refusal": {"Error": "x"}}).replace(" ", ""))
    for text in (DATA, DATA.replace(" ", ""), json.dumps({"object_key": 'b/"refusal":'})):
        assert not refusal.search(text)


def test_the_query_of_outcomes_knows_executions_that_end_in_no_state() -> None:
    assert {"ExecutionTimedOut", "ExecutionAborted"} <= ENDS.keys() & set(
        quoted("OutcomesQuery", '"')
    )
