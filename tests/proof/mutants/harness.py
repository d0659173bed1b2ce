"""Runs the tests that can notice a mutant, the quickest first, until one fails."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from inorder import PROJECT, asl
from inorder.asl import check_file
from inorder.aws import executions
from inorder.model import policies
from tests.proof.model.mutation import Mutant, changes_of, mutants_of
from tests.proof.mutants.forked import run_pytest
from tests.support.selection import policies_of

TESTED_BY = "tests/policies"
NOT_TESTED_BY = {
    "test_engines.py",  # tells the stories of test_every_policy.py elsewhere
    "test_recipes.py",  # edits copies of the project, in which there is no mutant
    "test_switch.py",  # simulates; all mutants that it kills are killed sooner
    "test_an_event_costs_what_the_facts_say",  # likewise
}
WAIT_SCALE = 0.2
PATIENCE = 5  # a test fails if it takes so many times as long as without a mutant
CHECK, SCHEMA = "inorder check", "the schema"
SECONDS = {CHECK: 0.0, SCHEMA: 0.5}  # that these take: they and the tests run in this order

_asl_file = policies.asl_file


@dataclass
class Seen:
    """What a test does: the policies whose files it reads, with the states that it runs."""

    seconds: float = 0
    shares_a_server: bool = False
    states: dict[str, set[str]] = field(default_factory=dict)

    def can_notice(self, policy: str, where: str) -> bool:
        """Tell whether the test may fail if a state is changed; if it runs none, it reads all."""
        states = self.states.get(policy)
        return states is not None and (where in states or not any(self.states.values()))


Survey = dict[str, Seen]
# The policy, the mutant, and what killed it, or "".
Tried = tuple[str, str, str]


def mutants(policy: str) -> list[Mutant]:
    definition = (PROJECT / _asl_file(policy)).read_text(encoding="utf-8")
    return [*mutants_of(definition), *changes_of(definition)]


def examine(chosen: Sequence[tuple[str, Mutant]], workers: int) -> list[Tried]:
    # Not a Pool: its processes may have no children, and the shipped work is done in one.
    with ProcessPoolExecutor(workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        parts = pool.map(_try, [chosen[number::workers] for number in range(workers)])
        return [verdict for part in parts for verdict in part]


def _try(chosen: Sequence[tuple[str, Mutant]]) -> list[Tried]:
    session = _Session(chosen)
    run_pytest([str(PROJECT / TESTED_BY)], session)
    if session.problem:
        raise RuntimeError(session.problem)
    return session.verdicts


class _Session:
    """A plugin of pytest that makes the tests read other files, and decides which tests run."""

    def __init__(self, chosen: Sequence[tuple[str, Mutant]]) -> None:
        self._chosen, self.verdicts = chosen, list[Tried]()
        self.problem = "pytest ended before it ran a test"
        self.seen = Seen()
        self._temporary = tempfile.TemporaryDirectory(prefix="inorder-mutants-")
        self._folder = Path(self._temporary.name)
        (self._folder / "statemachine").mkdir()
        (self._folder / "template.yaml").symlink_to(PROJECT / "template.yaml")
        self._executions: list[tuple[Any, str]] = []
        self._failure = ""
        # Must happen before test modules are imported.
        for policy in policies.names():
            self.write(policy, (PROJECT / _asl_file(policy)).read_text(encoding="utf-8"))
        policies.asl_file = self._file  # type: ignore[assignment]
        begin = executions.StateMachine.start

        def start(machine: executions.StateMachine, event: Any) -> str:
            arn = begin(machine, event)
            self._executions.append((machine.client, arn))
            return arn

        executions.StateMachine.start = start  # type: ignore[assignment,method-assign]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each test without a mutant, and then those that may notice one of the mutants."""
        # Imported by now, so that they have found this run's files.
        in_process = sys.modules["tests.support.in_process"]
        test_states = sys.modules["tests.policies.test_states"]
        self._in_process, self._test_states = in_process, test_states
        begin, run_state = in_process.InProcess.__init__, test_states.run_state

        def init(aws: Any, *arguments: Any) -> None:
            begin(aws, *arguments)
            aws.wait_scale = WAIT_SCALE

        def run_one(local: Any, policy: str, name: str, *arguments: Any, **named: Any) -> Any:
            self.seen.shares_a_server = True
            self.seen.states.setdefault(policy, set()).add(name)
            return run_state(local, policy, name, *arguments, **named)

        in_process.InProcess.__init__ = init
        test_states.run_state = run_one  # type: ignore[attr-defined]
        self.problem, survey = "", Survey()
        items = {item.nodeid: item for item in session.items if self._concerns(item)}
        for name, item in items.items():
            failure = self.run_test(item, 60)
            if self.seen.shares_a_server:  # again, because the first one starts it
                failure += self.run_test(item, 60)
            if failure:
                self.problem = f"{name} fails without a mutant:\n{failure}"
                return True
            survey[name] = self.seen
        for policy, mutant in self._chosen:
            shipped = self.path(policy).read_text(encoding="utf-8")
            assert mutant.definition
            self.load(policy, mutant.definition)
            try:
                killer = self._killer(policy, mutant, items, survey)
            finally:
                self.load(policy, shipped)
            self.verdicts.append((policy, str(mutant), killer))
        return True

    def _concerns(self, item: pytest.Item) -> bool:
        named = policies_of(item)
        left_out = {item.path.name, getattr(item, "originalname", "")} & NOT_TESTED_BY
        return not left_out and (not named or not named.isdisjoint(dict(self._chosen)))

    def path(self, policy: str) -> Path:
        return self._folder / _asl_file(policy)

    def write(self, policy: str, definition: str) -> None:
        self.path(policy).write_text(definition, encoding="utf-8")

    def load(self, policy: str, definition: str) -> None:
        """Make all tests use a definition in place of the shipped one."""
        self.write(policy, definition)
        self._test_states.STATES[policy] = json.loads(definition)["States"]
        self._in_process.ONCE[self._in_process.PARSE].cache_clear()

    def _file(self, policy: str) -> str:
        self.seen.states.setdefault(policy, set())
        return str(self.path(policy))

    def run_test(self, item: pytest.Item, seconds: float) -> str:
        """Run a test, and give the report of its failure, or ""."""
        self.seen, self._failure = Seen(), ""
        self._executions.clear()
        item.add_marker(pytest.mark.timeout(seconds), append=False)
        begun = time.monotonic()
        # With the session as the next item, all but the session's fixtures are torn down.
        item.ihook.pytest_runtest_protocol(item=item, nextitem=item.session)
        self.seen.seconds = time.monotonic() - begun
        return self._failure

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failure += report.longreprtext

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Note the states that ran, and stop executions, before moto's state is dropped."""
        for states, arn in self._executions:
            for kind, details, *_ in executions.history(states, arn):
                if kind.endswith("StateEntered"):
                    for states_of in self.seen.states.values():
                        states_of.add(details["name"])
            if states.describe_execution(executionArn=arn)["status"] == "RUNNING":
                states.stop_execution(executionArn=arn)
        for policy in policies_of(item):
            self.seen.states.setdefault(policy, set())

    def _killer(
        self, policy: str, mutant: Mutant, items: dict[str, pytest.Item], survey: Survey
    ) -> str:
        noticing = (
            (n, seen) for n, seen in survey.items() if seen.can_notice(policy, mutant.where)
        )
        able = {name: seen.seconds for name, seen in noticing}
        for name, seconds in sorted((SECONDS | able).items(), key=lambda each: each[1]):
            if name in SECONDS:
                found = self._wrong(policy, with_schema=name == SCHEMA)
            else:
                found = self.run_test(items[name], PATIENCE * (1 + seconds))
            if found:
                return name
        return ""

    def _wrong(self, policy: str, *, with_schema: bool) -> str:
        """Check a file, without cfn-lint's schema if possible, which takes half a second."""
        if with_schema:
            return "".join(check_file(self.path(policy))[:1])
        definition = json.loads(self.path(policy).read_text(encoding="utf-8"))
        for rule in (rule for stage in asl.STAGES[1:] for rule in stage.values()):
            try:
                for state, wrong in rule(definition):
                    return f"{state}: {wrong}"
            except (KeyError, TypeError, ValueError):
                return ""  # a rule may rely on what only the schema checks
        return ""
