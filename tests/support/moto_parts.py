"""The parts of moto that are no interface of it, and why each is needed.

An update of moto may move any of them. So nothing else of the project touches them, and
`tests/unit/test_private_parts.py` finds those that have moved.
"""

import functools
import pkgutil
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import boto3
import pytest

ASL = "stepfunctions.parser.asl"
PARSE = f"{ASL}.parse.asl_parser.AmazonStateLanguageParser.parse"
PARSE_PATH = f"{ASL}.utils.json_path.parse"
WAIT = f"{ASL}.component.state.wait.wait_function.wait_function.WaitFunction._wait_interval"
RETRY_TIME = f"{ASL}.component.common.retry.retrier_decl.time"
TAKE_STATE = f"{ASL}.component.state.state.CommonStateField._eval_body"
HEAD_OBJECT = "s3.responses.S3Response.head_object"
NOW = "core.utils.utcnow"

# Each part's parameters, or None if it is no function; and what it is needed for.
PARTS: dict[str, tuple[str | None, str]] = {
    PARSE: ("definition", "parse a state machine once, not for each execution"),
    PARSE_PATH: ("path, debug", "parse a path once, not each time that it is read"),
    WAIT: ("self, env, wait_seconds", "let a Wait take a part of its time"),
    RETRY_TIME: (None, "let the delay before a retry take a part of its time"),
    TAKE_STATE: ("self, env", "stop an execution that never ends, by its `env.set_stop`"),
    HEAD_OBJECT: (
        "self, bucket_name, query, key_name, headers",
        "find the version null in a bucket without versions",
    ),
    NOW: ("", "let SQS wait in a test's time"),
}


def part(name: str) -> Any:
    """Give a part; a KeyError says that `PARTS` has none of that name."""
    PARTS[name]
    return pkgutil.resolve_name(f"moto.{name}")


def sleep_with(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], None]) -> None:
    """Let Waits and the delays before retries sleep in another way."""

    def wait(_: object, env: object, wait_seconds: float) -> None:  # noqa: ARG001
        sleep(wait_seconds)

    monkeypatch.setattr(f"moto.{WAIT}", wait)
    monkeypatch.setattr(f"moto.{RETRY_TIME}", SimpleNamespace(sleep=sleep))


def tell_time(monkeypatch: pytest.MonkeyPatch, now: Callable[[], float]) -> None:
    """Let SQS count a test's seconds since 1970."""

    def utc() -> datetime:
        return datetime.fromtimestamp(now(), UTC).replace(tzinfo=None)

    monkeypatch.setattr(f"moto.{NOW}", utc)


def stop_endless_executions(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Stop an execution that enters more states, as a broken file may let it, and never end."""
    take_state = part(TAKE_STATE)
    entered: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # by execution

    @functools.wraps(take_state)
    def take_or_stop(state: Any, env: Any) -> None:
        take_state(state, env)
        entered[env] = entered.get(env, 0) + 1
        if entered[env] > most:
            cause = f"it has entered more than {most} states"
            env.set_stop(stop_date=datetime.now(UTC), error="Endless", cause=cause)

    monkeypatch.setattr(f"moto.{TAKE_STATE}", take_or_stop)


def find_null_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the version ``null`` in a bucket without versions, as AWS does."""
    head_object = part(HEAD_OBJECT)

    @functools.wraps(head_object)
    def head(
        response: Any, bucket_name: str, query: dict[str, Any], *rest: Any, **named: Any
    ) -> Any:
        if query.get("versionId") == ["null"]:
            versioning = boto3.client("s3").get_bucket_versioning(Bucket=bucket_name)
            if "Status" not in versioning:
                query = {name: value for name, value in query.items() if name != "versionId"}
        return head_object(response, bucket_name, query, *rest, **named)

    monkeypatch.setattr(f"moto.{HEAD_OBJECT}", head)
