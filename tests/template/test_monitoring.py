"""The dashboard, the alarms, the metrics from the logs and the saved queries, without CloudWatch.

Neither moto nor ministack evaluates a filter pattern or these queries, so their parts are compared
with AWS's documents, with entries of AWS's form and with the ASL files.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.loaders import Loader

from bench.resolved_template import Json, broken_references, of_type, template
from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.asl.definition import is_end
from inorder.model.execution import ENDS
from inorder.model.policies import asl_file, definition, like
from tests.template.deployed import ADAPT, ALARM, FUNCTION, POLICIES, Deployed

RETRYING = [policy for policy in POLICIES if policy not in like("uncoordinated")]
FILTER, QUERY = "Logs::MetricFilter", "Logs::QueryDefinition"
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
STATISTICS = {"Maximum", "Sum", "p50", "p99"}
Metric = tuple[str, str, dict[str, str]]  # its namespace, its name and its dimensions


def states_of(policy: str) -> Json:
    states: Json = definition(policy)["States"]
    return states


OUTCOMES = {
    name for policy in RETRYING for name, state in states_of(policy).items() if is_end(state)
}


def widgets(stack: Deployed) -> list[Json]:
    return list(json.loads(stack["EventsDashboard"]["DashboardBody"])["widgets"])


def shown(stack: Deployed) -> Iterator[Metric]:
    """List the metrics of the dashboard.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
    """
    for widget in widgets(stack):
        for metric in widget["properties"]["metrics"]:
            texts = [part for part in metric if isinstance(part, str)]
            assert metric[len(texts) :] == [part for part in metric if isinstance(part, dict)][:1]
            yield texts[0], texts[1], dict(zip(texts[2::2], texts[3::2], strict=True))


def watched(stack: Deployed) -> Iterator[Metric]:
    """List the metrics of the alarms."""
    for alarm in stack.of(ALARM).values():
        dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        yield alarm["Namespace"], alarm["MetricName"], dimensions


def is_emitted(metric: Metric, stack: Deployed) -> bool:
    """Tell whether a metric is one of AWS, of a filter, or of a function of the deployment."""
    namespace, name, dimensions = metric
    if namespace != STACK:
        [(dimension, value)] = dimensions.items()
        return bool(value) and name in DOCUMENTED[namespace, dimension]
    for each in stack.of(FILTER).values():
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
    stack = Deployed(**parameters)
    metrics = [*watched(stack), *(shown(stack) if "Dashboard" in parameters else [])]
    assert [each for each in metrics if not is_emitted(each, stack)] == []
    alarms = parameters.get("Alarms", "loss")
    assert bool(stack.of(ALARM)) is (alarms != "none")
    logs_all = parameters.get("ExecutionLogLevel", "ALL") == "ALL"
    breaks = "Break Lock" in states_of(parameters.get("Policy", "latest-wins"))
    assert ("BrokenLocksAlarm" in stack) is (alarms == "all" and logs_all and breaks)
    if "Dashboard" not in parameters:  # which shows it, too
        assert ("BrokenLocksFilter" in stack) is ("BrokenLocksAlarm" in stack)
    heals = parameters.get("HealMinutes") != "0"
    assert ("HealKeysErrorsAlarm" in stack) is (heals and alarms != "none")


def test_by_default_nothing_is_added_that_costs_more_than_the_alarms_before_a_loss() -> None:
    stack = Deployed()
    assert not stack.of("CloudWatch::Dashboard") | stack.of(FILTER) | stack.of(QUERY)
    assert stack.of(ALARM).keys() == {
        *("ParkedEventsAlarm", "UndeliveredEventsAlarm", "RetryEventsAlarm", "RecordsAlarm"),
        *("RetryEventsErrorsAlarm", "UnadaptedRecordsAlarm", "HealKeysErrorsAlarm"),
    }


def test_the_documents_have_each_alarm_and_what_all_of_them_cost() -> None:
    text = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")
    section = text.partition("\n## Alarms\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+Alarm)` \|", section, re.MULTILINE)
    assert rows == [*of_type(template()["Resources"], ALARM)]
    for alarms in ("loss", "all"):
        counts = (
            len(Deployed(Alarms=alarms, AdaptRecords=adapt).of(ALARM))
            for adapt in ("false", "true")
        )
        costs = [f"{count} | {count / 10:.2f}" for count in counts]
        assert f"| `{alarms}` | {' | '.join(costs)} |" in section


def test_an_alarm_has_what_cloudwatch_accepts() -> None:
    """https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html."""
    for alarm in Deployed(**EVERYTHING).of(ALARM).values():
        assert len(alarm["AlarmDescription"]) <= 1024
        seconds = alarm["Period"] * alarm["EvaluationPeriods"]
        assert seconds <= (86_400 if alarm["Period"] < 3600 else 604_800)
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"]
        assert alarm["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("policy", RETRYING)
def test_the_functions_duration_is_compared_with_its_timeout(policy: str) -> None:
    stack = Deployed(Policy=policy, **EVERYTHING)
    alarm = stack["FunctionDurationAlarm"]
    [dimension] = alarm["Dimensions"]
    timeout = stack[dimension["Value"]]["Timeout"] * 1000
    assert alarm["Threshold"] == 0.8 * timeout
    annotations = [each["properties"].get("annotations", {}) for each in widgets(stack)]
    assert timeout in [line["value"] for each in annotations for line in each.get("horizontal", [])]


@pytest.mark.parametrize("qualifier", ["", ":7"])
def test_a_function_of_ones_own_is_watched_by_its_name(qualifier: str) -> None:
    stack = Deployed(**EVERYTHING, WorkFunctionArn=f"{FUNCTION}{qualifier}")
    metrics = [*shown(stack), *watched(stack)]
    names = {each["FunctionName"] for _, _, each in metrics if "FunctionName" in each}
    others = ("RetryEventsFunction", "HealKeysFunction", "AdaptRecordsFunction")
    assert names == {"index-documents", *others}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_dashboard_is_valid_and_free_and_has_each_outcome(policy: str) -> None:
    stack = Deployed(Policy=policy, **EVERYTHING)
    for box in widgets(stack):
        assert (box["type"], box["x"] + box["width"] <= 24) == ("metric", True)
        properties = box["properties"]
        assert (properties["region"], properties["view"]) == ("us-east-1", "timeSeries")
        parts = [part for each in properties["metrics"] for part in each]
        given = {part["stat"] for part in parts if isinstance(part, dict) and "stat" in part}
        assert {properties["stat"], *given} <= STATISTICS
    metrics = list(shown(stack))
    # A free dashboard has at most 50 metrics: https://aws.amazon.com/cloudwatch/pricing/
    assert len(metrics) <= 50
    dimensions = [each for _, name, each in metrics if name == "Outcomes"]
    assert [set(each) for each in dimensions] == [{"Outcome"}] * len(OUTCOMES)
    assert {each["Outcome"] for each in dimensions} == OUTCOMES


MODEL = Loader().load_service_model("stepfunctions", "service-2")
HISTORY_TYPES = set(MODEL["shapes"]["HistoryEventType"]["enum"])
SELECTORS = {"$.type", "$.details.name", "$.message"}
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html
TERM = re.compile(r'(\$[\w.]+) = "([^"*]+)"')


FILTERS = Deployed(**EVERYTHING).of(FILTER)


def terms_of(name: str) -> list[tuple[str, str]]:
    """List the selectors and the values that a filter compares."""
    return TERM.findall(FILTERS[name]["FilterPattern"])


def made_by(name: str) -> Json:
    [made] = FILTERS[name]["MetricTransformations"]
    found: Json = made
    return found


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_pattern_has_the_documented_syntax(name: str) -> None:
    pattern = FILTERS[name]["FilterPattern"]
    assert len(pattern) <= 1024
    matched = re.fullmatch(r"\{ (.+) \}", pattern)
    assert matched
    terms = TERM.sub("0", matched[1])
    assert re.fullmatch(r"[0()&| ]+", terms)
    # What is left is an expression of terms, operators and balanced brackets.
    compile(terms.replace("&&", "and").replace("||", "or"), name, "eval")
    for selector, value in terms_of(name):
        assert selector in SELECTORS
        assert selector != "$.type" or value in HISTORY_TYPES


def test_the_filter_of_outcomes_matches_the_ends_of_the_policies_and_nothing_else() -> None:
    """Each value of a dimension is paid for as a metric; the log has its value in a field."""
    passes, fails, *names = terms_of("OutcomesFilter")
    assert (passes, fails) == (("$.type", "PassStateEntered"), ("$.type", "FailStateEntered"))
    assert {*names} == {("$.details.name", outcome) for outcome in OUTCOMES}
    made = made_by("OutcomesFilter")
    assert made["Dimensions"] == [{"Key": "Outcome", "Value": "$.details.name"}]
    assert "DefaultValue" not in made  # CloudWatch refuses it together with dimensions
    assert "Dimensions" not in made_by("BrokenLocksFilter")


def test_the_age_of_a_retry_is_in_the_lines_that_the_filter_finds() -> None:
    source = (PROJECT / "functions/retry_events/app.py").read_text(encoding="utf-8")
    assert made_by("RetryAgeFilter")["MetricValue"] == "$.age_seconds"
    for text in ("age_seconds", *(value for _, value in terms_of("RetryAgeFilter"))):
        assert f'"{text}"' in source


def test_check_names_the_line_of_each_resource_that_lacks_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asl, "STAGES", asl.STAGES[1:])  # without the schema, which takes a second
    lacking = {
        ("Superseded", "Outdated"): (
            *("OutcomesFilter", "EventsDashboard", "OutcomesQuery", "KeyHistoryQuery"),
        ),
        ("Claim Key", "Take Key"): ("KeyHistoryQuery",),
        ("Release Lock", "Free Key"): ("SlowestHoldersQuery",),
        ("Break Lock", "Force Lock"): ("BrokenLocksFilter", "BrokenLocksQuery", "KeyHistoryQuery"),
    }
    (tmp_path / "statemachine").mkdir()
    file = tmp_path / asl_file("latest-wins")
    text = (PROJECT / asl_file("latest-wins")).read_text(encoding="utf-8")
    for old, new in lacking:
        text = text.replace(f'"{old}"', f'"{new}"')
    file.write_text(text, encoding="utf-8")
    shutil.copy(PROJECT / "template.yaml", tmp_path)
    lines = (tmp_path / "template.yaml").read_text(encoding="utf-8").splitlines()
    told = re.compile(r"add (.+) to line (\d+) of the template, in (\w+)")
    found = told.findall("\n".join(check_file(file)))
    for (_, new), resources in lacking.items():
        assert {resource for form, _, resource in found if new in form} == {*resources}
    # With what the findings say, there are none.
    for form, line, _ in found:
        new = next(each for _, each in lacking if each in form)
        before = lines[int(line) - 1]
        there = re.findall(re.escape(form).replace(re.escape(new), '[^"]+'), before)[-1]
        lines[int(line) - 1] = before.replace(there, f"{there} {form}")
    (tmp_path / "template.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert check_file(file) == []


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
    # CloudWatch logs nothing of other names:
    # https://docs.aws.amazon.com/step-functions/latest/dg/procedure-cw-metrics.html
    assert all(state.isascii() and len(state) <= 80 for state in states)
    parameters = {f"{{{{{each['Name']}}}}}" for each in QUERIES[name].get("Parameters", [])}
    known = states | HISTORY_TYPES | parameters | {"StateEntered"}
    assert parameters <= set(quoted(name, '"')) <= known


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
