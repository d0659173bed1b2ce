"""What the template becomes with some parameters, and the questions that the tests ask about it."""

from typing import Any

from inorder import PROJECT
from tests.support.resolved_template import FILE, Json, of_type, resources_with, template

PLACES = ("template.yaml", "examples/*/template.yaml")
TEMPLATES = sorted(str(path.relative_to(PROJECT)) for name in PLACES for path in PROJECT.glob(name))
POLICIES: list[str] = template()["Parameters"]["Policy"]["AllowedValues"]
KEY = "arn:aws:kms:us-east-1:123456789012:key/k"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
TOPIC = "arn:aws:sns:us-east-1:123456789012:t"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:index-documents"
MACHINE, ALARM = "StepFunctions::StateMachine", "CloudWatch::Alarm"

Grant = tuple[str, str]  # action, resource


class Deployed:
    """The resources of a deployment with some parameters."""

    def __init__(self, *, file: str = FILE, **parameters: str) -> None:
        self.resources = resources_with(parameters, file)

    def __getitem__(self, name: str) -> Json:
        """Give the properties of a resource."""
        properties: Json = self.resources[name]["Properties"]
        return properties

    def __contains__(self, name: str) -> bool:
        return name in self.resources

    def of(self, kind: str) -> dict[str, Json]:
        """List the properties of the resources of a type, such as ``SQS::Queue``."""
        return of_type(self.resources, kind)

    def target(self, rule: str = "EventsRule") -> Json:
        """Give the only target of a rule."""
        targets: list[Json] = self[rule]["Targets"]
        [target] = targets
        return target

    def variables(self, function: str) -> Json:
        variables: Json = self[function]["Environment"]["Variables"]
        return variables

    def statements(self, role: str) -> list[Json]:
        """List the statements of a role, also from policies that are resources."""
        attached = self.of("IAM::Policy") | self.of("IAM::ManagedPolicy")
        policies = [*self[role]["Policies"]]
        policies += [policy for policy in attached.values() if role in policy.get("Roles", [])]
        return [
            statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]
        ]

    def grants(self, role: str) -> set[Grant]:
        return {
            (action, resource)
            for statement in self.statements(role)
            for action in listed(statement["Action"])
            for resource in listed(statement["Resource"])
        }


def state_machine_arn(policy: str) -> str:
    """Give the ARN of a policy's state machine in the stack named ``stack``."""
    return f"arn:aws:states:us-east-1:123456789012:stateMachine:stack_{policy}"


def listed(one_or_more: Any) -> list[Any]:
    return one_or_more if isinstance(one_or_more, list) else [one_or_more]
