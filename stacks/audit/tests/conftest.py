"""What the tests of the audit share: objects that S3 refuses to show."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.in_process import answered  # noqa: TID251 - this is a test, too

Refuse = Callable[..., None]


@pytest.fixture
def refuse() -> Refuse:
    """Let a client get a refusal: give the client, the status, the code, and parts of the URL.

    As of S3, the answer to HEAD has no body, and so no code.
    """

    def let(client: Any, status: int, code: str, *parts: str) -> None:
        def answer(params: dict[str, Any], model: Any, **_: Any) -> Any:
            if not all(part in params["url"] for part in parts):
                return None
            is_head = model.http["method"] == "HEAD"
            error = {"Code": str(status) if is_head else code, "Message": "by a test"}
            return answered(status, {"Error": error})

        client.meta.events.register_first("before-call", answer)

    return let
