"""What a companion reads of the main stack while it runs: outputs, parameters, its policy's facts.

A value that CloudFormation resolves stays as it was when the companion was deployed. What a
deployment of the main stack changes often is read here instead, and again after a minute.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import Any

SECONDS = 60  # for which a description is used: DescribeStacks is throttled per account


class UnknownPolicy(Exception):
    """The main stack has a policy that this companion's copy of the facts does not have."""


@dataclass(frozen=True)
class MainStack:
    """The main stack, as CloudFormation describes it."""

    parameters: Mapping[str, str]
    outputs: Mapping[str, str]

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The section of its policy in policies.toml.

        Raises
        ------
        UnknownPolicy
            There is none.
        """
        policy = self.parameters["Policy"]
        text = files("statemachine").joinpath("policies.toml").read_text(encoding="utf-8")
        facts: Mapping[str, Any] | None = tomllib.loads(text).get(policy)
        if facts is None:
            raise UnknownPolicy(
                f"Build and deploy this companion again: it has no policy {policy}."
            )
        return facts

    @property
    def handles_deletions(self) -> bool:
        """Whether the deletion of an object removes its output."""
        return bool(self.facts["deletions"]) and self.parameters["HandleDeletions"] == "true"


@dataclass
class Description:
    """Describes the main stack, at most once in `SECONDS`."""

    cloudformation: Any
    name: str
    _read: MainStack | None = field(default=None, init=False)
    _until: float = field(default=0, init=False)

    def main_stack(self) -> MainStack:
        """Give the main stack as it is, or was less than `SECONDS` ago."""
        if self._read is None or time.monotonic() >= self._until:
            [stack] = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"]
            self._read = MainStack(
                {each["ParameterKey"]: each["ParameterValue"] for each in stack["Parameters"]},
                {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]},
            )
            self._until = time.monotonic() + SECONDS
        return self._read
