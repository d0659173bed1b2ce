"""The template as CloudFormation sees it: transformed by SAM, with parameters and conditions.

A reference to a resource becomes its logical ID, an attribute ``ID.Attribute``. Physical names are
CloudFormation's matter.
"""

import copy
import re
from functools import cache
from typing import Any

import boto3
from samcli.yamlhelper import yaml_parse
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]

from inorder import PROJECT

Json = dict[str, Any]
ABSENT = object()
FILE = "template.yaml"
PSEUDO_PARAMETERS = {
    "AWS::AccountId": "123456789012",
    "AWS::NoValue": ABSENT,
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackName": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}


def template(file: str = FILE) -> Json:
    """Read a template."""
    return copy.deepcopy(_parsed(file))


@cache
def _parsed(file: str) -> Json:
    parsed: Json = yaml_parse((PROJECT / file).read_text(encoding="utf-8"))
    return parsed


@cache
def _session() -> boto3.Session:
    return boto3.Session(region_name="us-east-1")


@cache
def transformed(parameters: tuple[tuple[str, str], ...] = (), file: str = FILE) -> Json:
    """Transform a template with SAM, which resolves the parameters that are given."""
    parsed = template(file)
    properties = [part.get("Properties", {}) for part in parsed["Resources"].values()]
    for part in [*properties, parsed.get("Globals", {}).get("Function", {})]:
        for field in {"CodeUri", "DefinitionUri"} & part.keys():  # SAM wants them uploaded
            part[field] = "s3://bucket/key"
    translator = Translator({}, Parser(), boto_session=_session())
    translated: Json = translator.translate(parsed, dict(parameters))
    translator.metrics.publish()  # to nowhere; without it, SAM warns
    return translated


def resources_with(parameters: dict[str, str], file: str = FILE) -> Json:
    """List the resources of a deployment, by logical ID, without intrinsic functions."""
    values = _values(_parsed(file), parameters)
    resolved = resolve(transformed(tuple(sorted(values.items())), file), parameters)
    resources: Json = resolved["Resources"]
    return resources


def of_type(resources: Json, kind: str) -> dict[str, Json]:
    """List the properties of the resources of a type, such as ``SQS::Queue``, by logical ID."""
    return {
        name: resource["Properties"]
        for name, resource in resources.items()
        if resource["Type"] == f"AWS::{kind}"
    }


def resolve(parsed: Json, parameters: dict[str, str]) -> Json:
    """Give resources and outputs of a deployment."""
    values = _values(parsed, parameters) | PSEUDO_PARAMETERS
    resolver = _Resolver(values, parsed.get("Conditions", {}))
    return {
        section: {
            name: resolver.resolve({k: v for k, v in part.items() if k != "Condition"})
            for name, part in parsed.get(section, {}).items()
            if "Condition" not in part or resolver.holds(part["Condition"])
        }
        for section in ("Resources", "Outputs")
    }


def _values(parsed: Json, parameters: dict[str, str]) -> Json:
    described = parsed.get("Parameters", {})
    return {
        name: str(parameter.get("Default", name)) for name, parameter in described.items()
    } | parameters


class _Resolver:
    def __init__(self, values: Json, conditions: Json) -> None:
        self._values, self._conditions = values, conditions

    def holds(self, condition: str) -> bool:
        return bool(self.resolve(self._conditions[condition]))

    def resolve(self, value: Any) -> Any:
        """Give a value without intrinsic functions."""
        if isinstance(value, list):
            return [resolved for part in value if (resolved := self.resolve(part)) is not ABSENT]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, argument)] = value.items()
            function = getattr(self, "_" + name.removeprefix("Fn::").lower(), None)
            if name in {"Ref", "Condition"} or name.startswith("Fn::"):
                if function is None:
                    raise ValueError(f"{name} is not known here")
                return function(argument)
        resolved = {name: self.resolve(part) for name, part in value.items()}
        return {name: part for name, part in resolved.items() if part is not ABSENT}

    def _ref(self, name: str) -> Any:
        return self._values.get(name, name)

    def _condition(self, name: Any) -> Any:
        # In an IAM statement, Condition is a field.
        return self.holds(name) if isinstance(name, str) else {"Condition": self.resolve(name)}

    def _getatt(self, argument: list[str]) -> str:
        return ".".join(argument)

    def _if(self, argument: list[Any]) -> Any:
        condition, then, otherwise = argument
        return self.resolve(then if self.holds(condition) else otherwise)

    def _equals(self, argument: list[Any]) -> bool:
        one, other = self.resolve(argument)
        return bool(one == other)

    def _not(self, argument: list[Any]) -> bool:
        return not self.resolve(argument)[0]

    def _and(self, argument: list[Any]) -> bool:
        return all(self.resolve(argument))

    def _or(self, argument: list[Any]) -> bool:
        return any(self.resolve(argument))

    def _sub(self, argument: Any) -> str:
        text, more = argument if isinstance(argument, list) else (argument, {})
        values = self._values | self.resolve(more)

        def value_of(name: re.Match[str]) -> str:
            return str(values.get(name[1], name[1]))

        return re.sub(r"\$\{([\w.:]+)\}", value_of, text)
