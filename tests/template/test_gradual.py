"""A gradual deployment: which ARN starts executions, and what rolls the new version back.

The local CloudFormation has no alias of a state machine, so what SAM makes of the template must do.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.resolved_template import Json, broken_references, of_type, resources_with, template
from inorder.asl.definition import EXPRESS_SECONDS, START
from inorder.model.policies import definition, starts_newest
from tests.template.test_monitoring import STACK, is_emitted

POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]
STREAM = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
FULL = {"AdaptRecords": "true", "RecordsStreamArn": STREAM}
LINEAR = {**FULL, "DeploymentType": "LINEAR"}
STARTERS = {"EventsRole", "RetryEventsRole", "AdaptRecordsRole"}
THEMSELVES = {policy for policy in POLICIES if starts_newest(policy)}
MACHINE, ALIAS = "StepFunctions::StateMachine", "StepFunctions::StateMachineAlias"


def granted(resources: Json, action: str) -> dict[str, set[str]]:
    """List what each policy of a role lets it do something with."""
    found: dict[str, set[str]] = {}
    attached = {name: [each] for name, each in of_type(resources, "IAM::Policy").items()}
    inline = {name: each["Policies"] for name, each in of_type(resources, "IAM::Role").items()}
    for name, policies in (inline | attached).items():
        for policy in policies:
            for statement in policy["PolicyDocument"]["Statement"]:
                if action in _listed(statement["Action"]):
                    found.setdefault(name, set()).update(_listed(statement["Resource"]))
    return found


def logical_id(policy: str) -> str:
    return "".join(word.capitalize() for word in policy.split("-"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["ALL_AT_ONCE", "CANARY", "LINEAR"])
def test_all_that_starts_executions_starts_the_alias_if_there_is_one(
    policy: str, kind: str
) -> None:
    """What started the state machine itself would run the new version at once."""
    given = {**FULL, "Policy": policy, "DeploymentType": kind}
    resources = resources_with(given)
    assert broken_references(given) == set()
    name = logical_id(policy)
    started = f"{name}StateMachine" if kind == "ALL_AT_ONCE" else f"{name}Alias"
    [target] = resources["EventsRule"]["Properties"]["Targets"]
    variables = [
        each.get("Environment", {}).get("Variables", {})
        for each in of_type(resources, "Lambda::Function").values()
    ]
    named = [each["STATE_MACHINE_ARN"] for each in variables if "STATE_MACHINE_ARN" in each]
    assert [target["Arn"], *named] == [started] * 3
    # Nothing else may: a role that is new here needs a line above.
    itself = {f"{logical_id(each)}StartsItself" for each in THEMSELVES}
    assert granted(resources, "states:StartExecution").keys() == STARTERS | itself


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_machine_that_starts_itself_starts_its_alias(policy: str) -> None:
    """AWS does not say whether $$.StateMachine.Id has the alias; a name has no colon."""
    states = definition(policy)["States"].values()
    starts = [each for each in states if each.get("Resource") == START]
    name = logical_id(policy)
    for kind, end in (("ALL_AT_ONCE", ""), ("CANARY", ":live")):
        resources = resources_with({"Policy": policy, "DeploymentType": kind})
        substitutions = resources[f"{name}StateMachine"]["Properties"]["DefinitionSubstitutions"]
        pattern = substitutions.get("StateMachineArnPattern")
        machines = "arn:aws:states:us-east-1:123456789012:stateMachine"
        assert pattern == (f"{machines}:{{}}{end}" if starts else None)
        for state in starts:
            arn = "States.Format('${StateMachineArnPattern}', $$.StateMachine.Name)"
            assert state["Parameters"]["StateMachineArn.$"] == arn
        aliases = of_type(resources, ALIAS).values()
        assert {each["Name"] for each in aliases} == ({end[1:]} if end else set())


def test_a_role_may_start_the_state_machine_which_step_functions_asks_of_who_starts_its_alias() -> (
    None
):
    """https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html."""
    resources = resources_with(LINEAR)
    machines, of_the_policy = set(of_type(resources, MACHINE)), {"LatestWinsStateMachine"}
    starters = dict.fromkeys(STARTERS, of_the_policy) | {"EventsRole": machines}
    for name in map(logical_id, THEMSELVES):
        starters[f"{name}StartsItself"] = {f"{name}StateMachine"}
    assert granted(resources, "states:StartExecution") == starters


@pytest.mark.parametrize("minimal", ["false", "true"])
def test_each_state_machine_has_an_alias_of_its_own_for_its_present_revision(minimal: str) -> None:
    """One of another policy may still get events: EventBridge tries for a day.

    A revision is of the definition, the role, the log and the traces, after a deployment has given
    the parameters their values; so a changed parameter makes a new version, too.
    """
    resources = resources_with({**LINEAR, "Minimal": minimal})
    machines = of_type(resources, MACHINE)
    versions = of_type(resources, "StepFunctions::StateMachineVersion")
    aliases = of_type(resources, ALIAS)
    assert (
        len(machines)
        == len(versions)
        == len(aliases)
        == (1 if minimal == "true" else len(POLICIES))
    )
    for machine in machines:
        version, alias = (machine.replace("StateMachine", each) for each in ("Version", "Alias"))
        assert versions[version] == {
            "StateMachineArn": machine,
            "StateMachineRevisionId": f"{machine}.StateMachineRevisionId",
        }
        # The alias refers to the version before until all events are shifted.
        kept = dict.fromkeys(("DeletionPolicy", "UpdateReplacePolicy"), "Retain")
        assert resources[version].items() >= kept.items()
        preference = aliases[alias]["DeploymentPreference"]
        assert preference["StateMachineVersionArn"] == version


def shown(metric: Json, values: dict[str, int | None]) -> float:
    """Give the value of a metric; None stands for a missing one."""
    fill = {"FILL": lambda value, instead: instead if value is None else value}
    found: float = eval(metric["Expression"], fill | values)  # noqa: S307
    return found


@pytest.mark.parametrize("alarms", ["none", "loss", "all"])
@pytest.mark.parametrize("kind", ["CANARY", "LINEAR"])
def test_an_alarm_that_is_there_rolls_back_before_all_events_are_shifted(
    kind: str, alarms: str
) -> None:
    """CloudWatch takes an alarm that does not exist for one that is OK.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachinealias-deploymentpreference.html
    """
    resources = resources_with({**FULL, "DeploymentType": kind, "Alarms": alarms})
    for alias in of_type(resources, ALIAS).values():
        preference = alias["DeploymentPreference"]
        assert preference["Type"] == kind
        [name] = preference["Alarms"]
    alarm = of_type(resources, "CloudWatch::Alarm")[name]
    percent, *metrics = alarm["Metrics"]
    seconds = {each["MetricStat"]["Period"] for each in metrics}
    assert seconds == {300}
    # A fault of an execution that lasts as long as it may is in the next period, at the latest.
    assert preference["Interval"] * 60 >= EXPRESS_SECONDS + 2 * max(seconds)
    # All events of the new version fail, and none of the old one.
    values = {each["Id"]: 0 for each in metrics} | {"started": 100}
    for bad in ("failed", "timed", "retried"):
        assert shown(percent, values | {bad: preference["Percentage"]}) >= 2 * alarm["Threshold"]
    # It goes off as well if AWS should not count what an alias starts.
    assert shown(percent, dict.fromkeys(values) | {"retried": 1}) >= alarm["Threshold"]
    for each in metrics:
        metric = each["MetricStat"]["Metric"]
        [dimension] = metric["Dimensions"]
        known = {dimension["Name"]: dimension["Value"]}
        assert is_emitted((metric["Namespace"], metric["MetricName"], known), resources), STACK


def test_a_gradual_deployment_adds_what_it_needs_and_by_default_there_is_none_of_it() -> None:
    before, after = resources_with(FULL), resources_with(LINEAR)
    added = {after[name]["Type"].rpartition("::")[2] for name in after.keys() - before.keys()}
    assert before.keys() <= after.keys()
    assert added == {"StateMachineVersion", "StateMachineAlias", "Alarm"}
    assert {name for name in before if before[name] != after[name]} == {
        *("EventsRule", "RetryEventsFunction", "AdaptRecordsFunction", "LatestWinsStateMachine")
    }
