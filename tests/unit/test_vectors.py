"""The fence runs all vectors (tests/vectors/README.md)."""

import json
import re
import weakref
from io import BytesIO
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from inorder import PROJECT
from inorder_fence import Fence
from inorder_fence.fenced_output import OutputContended
from invert_image.inversion import InvertedImage

FILES = {
    file.stem: json.loads(file.read_text())
    for file in sorted((PROJECT / "tests" / "vectors").glob("*.json"))
}
CALLS = FILES.pop("calls")
VECTORS = {
    f"{name}: {vector['name']}": vector for name, vectors in FILES.items() for vector in vectors
}
DAYS = 7


class Bad(Exception):
    """What the work raises."""


def expect(stub: Stubber, operation: str, parameters: Any, answer: dict[str, Any]) -> None:
    """Let the next call be this one, and answer it."""
    method = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()
    if "Body" in parameters:
        parameters = parameters | {"Body": parameters["Body"].encode()}
    if "status" in answer:
        code = answer.get("code", str(answer["status"]))
        stub.add_client_error(method, code, "", answer["status"], expected_params=parameters)
        return
    if "Body" in answer:
        body = BytesIO(answer["Body"].encode())
        length = len(body.getvalue())
        answer = {"ContentLength": length} | answer | {"Body": StreamingBody(body, length)}
    stub.add_response(method, answer, parameters)


@pytest.fixture(scope="module")
def s3() -> Any:
    return boto3.client("s3", aws_access_key_id="test", aws_secret_access_key="test")


@pytest.mark.parametrize("name", VECTORS)
def test_the_fence_makes_the_calls_and_gives_the_answer(
    name: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inorder_fence.fenced_output.time", Mock(**{"time.return_value": 0.9}))
    vector: dict[str, Any] = VECTORS[name]
    worked: list[bytes] = []
    results = weakref.WeakSet[InvertedImage]()

    def work(content: bytes) -> InvertedImage:
        assert not results  # there is memory for one
        worked.append(content)
        if content == b"bad":
            raise Bad("It is bad.")
        result = InvertedImage(b"made of " + content, "text/plain")
        results.add(result)
        return result

    options: dict[str, Any] = {"rejection": Bad, "hands_on": vector.get("hands_on", ())}
    fence = Fence(s3, "output", 100, work, vector.get("handles_deletions", True), **options)
    kind = "created" if "created" in vector else "deleted"
    detail = {"bucket": {"name": vector.get("bucket", "input")}, "object": vector[kind]}
    event = {"detail-type": f"Object {kind.capitalize()}", "detail": detail}
    payload = {"event": event, "fence": vector["fence"], "done_until": True}
    with Stubber(s3) as stub:
        for call in vector["calls"] * vector.get("times", 1):
            expect(stub, *(CALLS[call] if isinstance(call, str) else call))
        if fault := vector.get("fault"):
            with pytest.raises((ClientError, OutputContended)) as raised:
                fence.answer(payload, DAYS)
            assert fault in f"{raised.type.__name__} {raised.value}"
        else:
            answer = fence.answer(payload, DAYS)
            days = DAYS if vector["answer"]["outcome"] != "Rejected" else 15  # while it is parked
            assert answer.pop("expires_at") == str(days * 86_400)
            cause = answer.pop("cause", "")
            until = answer.pop("done_until", "")
            assert answer == vector["answer"]
            assert bool(cause) == (answer["outcome"] == "Rejected")
            assert until == ("" if cause else f"1970-01-{1 + DAYS:02}T00:00:00Z")
        stub.assert_no_pending_responses()
    assert len(worked) == len(set(worked))
