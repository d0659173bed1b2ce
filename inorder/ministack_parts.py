"""The parts of ministack that are no interface of it, and why each is needed.

An update of ministack may move any of them. So nothing else of the project touches them, and
`tests/unit/test_private_parts.py` finds those that have moved.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

Replacement = TypeVar("Replacement", bound=Callable[..., Any])

# Each part's parameters, or None if it is no function; and what it is needed for.
PARTS: dict[str, tuple[str | None, str]] = {
    "services.dynamodb.handle_request": (
        "method, path, headers, body, query_params",
        "count its calls",
    ),
    "services.eventbridge._dispatch_event": (
        "event, view",
        "give S3's event for EventBridge its version",
    ),
    "services.lambda_svc._emit_lambda_logs": (
        "func, request_id, log_text, error, duration_ms, log_source",
        "count the invocations of functions, with their seconds",
    ),
    "services.lambda_svc.acquire_worker": (
        "func_name, config, code_zip, qualifier, max_concurrency",
        "let an invocation wait for a process of its function",
    ),
    "services.s3._fire_s3_event": (
        "bucket_name, key, event_name, size, etag, deletion_type, restore_event_data, version_id,"
        " sequencer, object_extra, record_extra",
        "know the version that S3's event for EventBridge lacks",
    ),
    "services.stepfunctions._ExecutionError": ("error, cause", "let a state's call fail"),
    "services.stepfunctions._execute_task": (
        "state_def, raw_input, execution, ctx",
        "know which state of which execution makes a call",
    ),
    "services.stepfunctions._find_matching_retrier": (
        "retriers, error, retry_counts",
        "obey MaxDelaySeconds and JitterStrategy",
    ),
    "services.stepfunctions._invoke_resource": (
        "resource, input_data",
        "let a state's call fail, or count it: no proxy sees it",
    ),
    "services.stepfunctions.ast": (None, "read names in brackets in one thread at a time"),
    "services.stepfunctions.time": (None, "begin executions without 0.15 s of sleep"),
}


def part(name: str) -> Any:
    """Give a part; a KeyError says that `PARTS` has none of that name."""
    return getattr(*_place(name))


def put(name: str, value: Any) -> None:
    """Put something else in place of a part."""
    setattr(*_place(name), value)


def replaces(name: str) -> Callable[[Replacement], Replacement]:
    """Put a function in place of a part, which becomes its first argument."""

    def replace(function: Replacement) -> Replacement:
        put(name, partial(function, part(name)))
        return function

    return replace


def _place(name: str) -> tuple[Any, str]:
    PARTS[name]
    module, _, attribute = name.rpartition(".")
    return import_module(f"ministack.{module}"), attribute
