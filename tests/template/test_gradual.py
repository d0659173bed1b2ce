"""A gradual deployment: which ARN starts executions, and what rolls the new version back.

The local CloudFormation has no alias of a state machine, so what SAM makes of the template must do.
"""

from __future__ import annotations

import pytest

from inorder.asl.definition import EXPRESS_SECONDS, START
from inorder.model.policies import definition, starts_newest
from tests.support.resolved_template import Json, broken_references
from tests.template.deployed import ALARM, MACHINE, POLICIES, RECORDS, Deployed

ALIAS, VERSION = "StepFunctions::StateMachineAlias", "StepFunctions::StateMachineVersion"


def logical_id(policy: str) -> str:
    return "".join(word.capitalize() for word in policy.split("-"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", ["ALL_AT_ONCE", "CANARY"])
def test_all_that_starts_executions_starts_the_alias_if_there_is_one(
    policy: str, kind: str
) -> None:
    """What started the state machine itself would run the new version at once.

    Step Functions asks of who starts an alias that it may start the state machine:
    https://docs.aws.amazon.com/step-functions/latest/dg/auth-version-alias.html
    """
    given = {**RECORDS, "Policy": policy, "DeploymentType": kind}
    assert broken_references(given) == set()
    stack, name = Deployed(**given), logical_id(policy)
    started = f"{name}StateMachine" if kind == "ALL_AT_ONCE" else f"{name}Alias"
    functions = ("RetryEventsFunction", "AdaptRecordsFunction")
    named = [stack.variables(each)["STATE_MACHINE_ARN"] for each in functions]
    assert [stack.target()["Arn"], *named] == [started] * 3
    # Nothing else may: a role that is new here needs a line above.
    starts = {
        (role, resource)
        for role in stack.of("IAM::Role")
        for action, resource in stack.grants(role)
        if action == "states:StartExecution"
    }
    expected = {(role, f"{name}StateMachine") for role in ("RetryEventsRole", "AdaptRecordsRole")}
    # It may try to start the one before for a day.
    expected |= {("EventsRole", machine) for machine in stack.of(MACHINE)}
    selves = map(logical_id, filter(starts_newest, POLICIES))
    assert starts == expected | {(f"{each}Role", f"{each}StateMachine") for each in selves}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_machine_that_starts_itself_starts_its_alias(policy: str) -> None:
    """AWS does not say whether $$.StateMachine.Id has the alias; a name has no colon."""
    states = definition(policy)["States"].values()
    starts = [each for each in states if each.get("Resource") == START]
    for kind, end in (("ALL_AT_ONCE", ""), ("CANARY", ":live")):
        stack = Deployed(Policy=policy, DeploymentType=kind)
        substitutions = stack[f"{logical_id(policy)}StateMachine"]["DefinitionSubstitutions"]
        pattern = f"arn:aws:states:us-east-1:123456789012:stateMachine:{{}}{end}"
        assert substitutions.get("StateMachineArnPattern") == (pattern if starts else None)
        for state in starts:
            arn = "States.Format('${StateMachineArnPattern}', $$.StateMachine.Name)"
            assert state["Parameters"]["StateMachineArn.$"] == arn


@pytest.mark.parametrize("minimal", ["false", "true"])
def test_each_state_machine_has_an_alias_of_its_own_for_its_present_revision(minimal: str) -> None:
    """One of another policy may still get events: EventBridge tries for a day.

    A revision is of the definition, the role, the log and the traces, after a deployment has given
    the parameters their values; so a changed parameter makes a new version, too.
    """
    assert not Deployed().of(ALIAS) | Deployed().of(VERSION)
    stack = Deployed(**RECORDS, DeploymentType="LINEAR", Minimal=minimal)
    aliases, versions, machines = map(stack.of, (ALIAS, VERSION, MACHINE))
    assert len(machines) == len(versions) == len(aliases)
    for machine in machines:
        version, alias = (machine.replace("StateMachine", each) for each in ("Version", "Alias"))
        revision = f"{machine}.StateMachineRevisionId"
        expected = {"StateMachineArn": machine, "StateMachineRevisionId": revision}
        assert versions[version] == expected
        # The alias refers to the version before until all events are shifted.
        kept = dict.fromkeys(("DeletionPolicy", "UpdateReplacePolicy"), "Retain")
        assert stack.resources[version].items() >= kept.items()
        assert aliases[alias]["Name"] == "live"
        assert aliases[alias]["DeploymentPreference"]["StateMachineVersionArn"] == version


def shown(metric: Json, values: dict[str, int | None]) -> float:
    """Give the value of a metric; None stands for a missing one."""
    fill = {"FILL": lambda value, instead: instead if value is None else value}
    found: float = eval(metric["Expression"], fill | values)  # noqa: S307
    return found


@pytest.mark.parametrize(("kind", "alarms"), [("CANARY", "none"), ("LINEAR", "all")])
def test_an_alarm_that_is_there_rolls_back_before_all_events_are_shifted(
    kind: str, alarms: str
) -> None:
    """CloudWatch takes an alarm that does not exist for one that is OK.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-stepfunctions-statemachinealias-deploymentpreference.html
    """
    stack = Deployed(**RECORDS, DeploymentType=kind, Alarms=alarms)
    for alias in stack.of(ALIAS).values():
        preference = alias["DeploymentPreference"]
        assert preference["Type"] == kind
        [name] = preference["Alarms"]
    alarm = stack.of(ALARM)[name]
    percent, *metrics = alarm["Metrics"]
    assert {each["MetricStat"]["Period"] for each in metrics} == {300}
    # A fault of an execution that lasts as long as it may is in the next period, at the latest.
    assert preference["Interval"] * 60 >= EXPRESS_SECONDS + 2 * 300
    # All events of the new version fail, and none of the old one.
    values = {each["Id"]: 0 for each in metrics} | {"started": 100}
    for bad in ("failed", "timed", "retried"):
        assert shown(percent, values | {bad: preference["Percentage"]}) >= 2 * alarm["Threshold"]
    # It goes off as well if AWS should not count what an alias starts.
    assert shown(percent, dict.fromkeys(values) | {"retried": 1}) >= alarm["Threshold"]
