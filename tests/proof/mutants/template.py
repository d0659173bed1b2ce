"""Breaks the template: each mutant is one small change of what SAM reads."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench import resolved_template
from tests.proof.mutants.forked import Mutant
from tests.proof.mutants.functions import other_numbers

TESTED_BY = [
    "test_parameters.py",
    "test_roles.py",
    "test_monitoring.py",
    "test_app.py::test_the_seconds_of_work_and_of_s3_fit_into_the_functions_timeout",
    "test_documents.py::test_the_page_of_parameters_lists_those_of_the_template",
    "test_heal_keys.py::test_a_sweep_ends_before_its_time_is_up_however_slow_each_call_is",
    "test_heal_keys.py::test_the_index_has_what_is_read",
    "test_retry_events.py::test_six_calls_that_do_not_answer_end_before_the_timeout",
    "test_adapt_records.py::test_a_call_that_gets_no_answer_ends_before_the_timeout",
]
NAME = "template"
# What a person reads, or what is only drawn.
_KEPT = {"Description", "AssertDescription", "AllowedValues", "DashboardBody", "QueryString"}
# Of the other numbers, such as sizes, periods and limits of a parameter, no promise depends.
_NUMBERS = {
    "maxReceiveCount",
    "MaximumEventAgeInSeconds",
    "MaximumRetryAttempts",
    "EXECUTION_SECONDS",
    "Threshold",
    "Timeout",
    "VisibilityTimeout",
}
_LEFT_OUT = re.compile("Condition|DependsOn|.*Policy|.*Config|.*Configuration|.*Specification")
_WHOLE_LISTS = ("Statement", "Action", "Resource", "Fn::And", "Fn::Or", "Targets")


def mutants() -> Iterator[Mutant]:
    whole = resolved_template.template()
    for section in ("Parameters", "Conditions", "Resources"):
        for name, part in whole[section].items():
            for what in _changed(part, set()):
                where = f"{section}.{name}"
                install = partial(_install, copy.deepcopy(whole))
                yield Mutant(f"{where}: {what}", where, install)


def _install(changed: resolved_template.Json) -> None:
    resolved_template._parsed = lambda: changed  # type: ignore[assignment]
    resolved_template.transformed.cache_clear()


def _changed(part: Any, seen: set[int], path: str = "") -> Iterator[str]:
    """Change a part in each way, and say how; it is different until the next way is asked for.

    An alias of YAML is the same object as its anchor, so what is changed there changes here.
    """
    if id(part) in seen or not isinstance(part, dict | list):
        return
    seen.add(id(part))
    for key, value in list(part.items() if isinstance(part, dict) else enumerate(part)):
        if key in _KEPT:
            continue
        at = f"{path}.{key}".lstrip(".")
        for other in _others(key, value):
            part[key] = other
            yield f"{at} {other}"
        part[key] = value
        if isinstance(part, dict) and len(part) > 1 and _LEFT_OUT.fullmatch(str(key)):
            order = list(part)
            del part[key]
            yield f"no {at}"
            part[key] = value
            for name in order:  # as it was
                part[name] = part.pop(name)
        if isinstance(value, list) and key in _WHOLE_LISTS and len(value) > 1:
            for number, each in enumerate(value):
                if value.count(each) > 1:
                    continue  # it holds without this one, too
                part[key] = [*value[:number], *value[number + 1 :]]
                yield f"no {at}.{number}"
            part[key] = value
        yield from _changed(value, seen, at)


def _others(key: Any, value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case "true" | "false":
            yield "false" if value == "true" else "true"
        case int() if key == "MessageRetentionPeriod":
            yield value // 2  # SQS has no longer one
        case int() | float() if key in _NUMBERS:
            yield from other_numbers(value)
        case str() if value.isdecimal() and key in _NUMBERS:
            yield from map(str, other_numbers(int(value)))
        case {"Fn::If": [condition, then, otherwise]}:
            yield {"Fn::If": [condition, otherwise, then]}
