"""The facts about each policy, as statemachine/policies.toml has them, and the tables of docs/."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from inorder import PROJECT
from inorder.asl.roles import Role, doing
from inorder.asl.seconds import longest_execution

FACTS = "statemachine/policies.toml"
DOCUMENT = "docs/policies.md"  # has the tables
NOTHING = {"writes": 0, "reads": 0, "invocations": 0}


@dataclass(frozen=True)
class Cost:
    """What one event costs: writes to the table, reads from it, and invocations of the function."""

    writes: int
    reads: int
    invocations: int

    def __str__(self) -> str:
        return f"{self.writes} / {self.reads} / {self.invocations}"


@dataclass(frozen=True)
class Costs:
    """What events cost by their situation; `waiter` is None if the policy waits for nothing."""

    uncontended: Cost
    duplicate: Cost
    older: Cost
    waiter: Cost | None = None


@dataclass(frozen=True)
class Log:
    """What an execution writes to its log at level ALL, in kilobytes."""

    uncontended: int  # an event that waits for nothing
    poll: int | None = None  # each poll of a waiter

    def __str__(self) -> str:
        return f"{self.uncontended}" + (f", {self.poll} a poll" if self.poll else "")


@dataclass(frozen=True)
class Policy:
    """A policy. statemachine/policies.toml explains the fields."""

    name: str
    promise: str
    use: str
    deletions: bool
    fence: Literal["newest", "each", "none"]
    keeps: Literal["newest", "first", "each", "last"]
    cost: Costs
    log: Log
    log_without_data: Log
    file: str = ""
    like: str | None = None
    without_output: frozenset[str] = frozenset()
    each_poll: Cost = Cost(**NOTHING)
    index: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def claims_keys(self) -> bool:
        """Whether its executions claim keys, and so leave records."""
        return self.cost.uncontended.writes > 0

    @property
    def asl_file(self) -> str:
        """Its ASL file, from the project's folder."""
        return f"statemachine/{self.file}" if self.file else own_file(self.name)


def policies(project: Path = PROJECT) -> list[Policy]:
    """Read the facts about all policies."""
    facts = tomllib.loads((project / FACTS).read_text(encoding="utf-8"))
    return [_policy(name, entry) for name, entry in facts.items()]


@cache
def recording() -> frozenset[str]:
    """Name the states of all policies that write their event to the table."""
    files = [definition(policy)["States"] for policy in names()]
    return frozenset(name for states in files for name in doing(states, Role.RECORDS))


def outcomes(states: Mapping[str, Any]) -> frozenset[str]:
    """Name how executions end: what a Pass at the end writes, and the error of a Fail."""
    ends = [state for state in states.values() if state.get("End") or state["Type"] == "Fail"]
    named = (end.get("Error") or end.get("Parameters", {}).get("outcome") for end in ends)
    return frozenset(filter(None, named))


@cache
def starts_newest(name: str) -> bool:
    """Tell whether a holder of a policy starts the newest event, in an execution of its own."""
    return bool(doing(definition(name)["States"], Role.STARTS))


def names(project: Path = PROJECT) -> list[str]:
    """List the names of all policies."""
    return [policy.name for policy in policies(project)]


def uncoordinated() -> str:
    """Name the policy without a lock and a fence, which the demonstration compares with."""
    return next(policy.name for policy in policies() if policy.fence == "none")


def policy(name: str, project: Path = PROJECT) -> Policy:
    """Read the facts about one policy; KeyError if no policy has that name."""
    return {policy.name: policy for policy in policies(project)}[name]


def asl_file(name: str, project: Path = PROJECT) -> str:
    """Name the ASL file of a policy, from the project's folder."""
    return policy(name, project).asl_file


def own_file(name: str) -> str:
    """Name the ASL file of a policy that shares none."""
    return f"statemachine/{stem(name)}.asl.json"


def asl(name: str, project: Path = PROJECT) -> str:
    """Read the ASL of a policy, with its fence, as the template substitutes it."""
    its = policy(name, project)
    return (project / its.asl_file).read_text(encoding="utf-8").replace("${Fence}", its.fence)


def definition(name: str, project: Path = PROJECT) -> dict[str, Any]:
    """Read the state machine of a policy."""
    read: dict[str, Any] = json.loads(asl(name, project))
    return read


def stem(name: str) -> str:
    """Give the name of a policy as it is in the names of its files."""
    return name.replace("-", "_")


def tables(project: Path = PROJECT) -> dict[str, str]:
    """Render the tables of the documentation, by their names, in Markdown."""
    rows = policies(project)

    def of_each(headings: list[str], cells: Callable[[Policy], list[str]]) -> str:
        return table(headings, ([f"`{row.name}`", *cells(row)] for row in rows))

    return {
        "policies": of_each(
            ["policy", "promise", "use it for"],
            lambda row: [row.promise, row.use + " The default." * (row is rows[0])],
        ),
        "costs": of_each(
            [
                *("cost of", "uncontended", "duplicate", "older event", "waiter"),
                *("log in KB", "without data"),
            ],
            lambda row: [
                *map(str, (row.cost.uncontended, row.cost.duplicate, row.cost.older)),
                *map(str, (row.cost.waiter or "-", row.log, row.log_without_data)),
            ],
        ),
        "seconds": of_each(
            ["policy", "seconds of its longest execution"],
            lambda row: [f"{longest_execution(definition(row.name, project)):g}"],
        ),
    }


def with_tables(text: str, project: Path = PROJECT) -> str:
    """Put the tables as they are now between their markers in a text of the documentation.

    It has ``<!-- table: NAME -->`` above a table, and ``<!-- end -->`` below. A ValueError says
    that there is no table of that name.
    """
    return between_markers(text, "table", tables(project))


def between_markers(text: str, kind: str, rendered: Mapping[str, str]) -> str:
    """Put what is rendered between its markers in a text, which must name nothing else."""
    if unknown := set(re.findall(rf"<!-- {kind}: (.+) -->", text)) - set(rendered):
        raise ValueError(f"there is no {kind} {', '.join(sorted(unknown))}")
    return re.sub(
        rf"(<!-- {kind}: (.+) -->\n)(?:.*\n)*?(<!-- end -->)",
        lambda block: f"{block[1]}{rendered[block[2]]}{block[3]}",
        text,
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int | None = None) -> str:
    """Write a table in Markdown, of which so many columns are aligned left, or all."""
    aligned = ["---" if left is None or at < left else "---:" for at in range(len(headings))]
    lines = [headings, aligned, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _policy(name: str, facts: dict[str, Any]) -> Policy:
    texts = {field: " ".join(facts[field].split()) for field in ("promise", "use")}
    cost = Costs(**{situation: Cost(**counts) for situation, counts in facts["cost"].items()})
    more = {
        "cost": cost,
        "each_poll": Cost(**facts.get("each_poll", NOTHING)),
        "log": Log(**facts["log"]),
        "log_without_data": Log(**facts["log_without_data"]),
        "without_output": frozenset(facts.get("without_output", ())),
    }
    return Policy(name, **facts | texts | more)
