"""The calls of S3 that the fence makes for an event, in their order, and S3's answers to them."""

import re
import weakref
from functools import cache, partial
from io import BytesIO
from typing import Any, NamedTuple
from unittest.mock import Mock, patch

import boto3
from botocore.response import StreamingBody
from botocore.stub import Stubber

from inorder_fence import Fence
from invert_image.inversion import InvertedImage
from tests.support import events

KEY, OUTPUT = "a/x", "a/out-x"
# The outputs of an event and of a version, under the fence `each`.
OWN, OF_VERSION = f"{OUTPUT}/0B", f"{OUTPUT}/v1"
MAXIMUM_BYTES, DAYS = 100, 7


class Bad(Exception):
    """The work rejects the content ``bad``."""


def created(sequencer: str = "0B", version: str | None = None, **more: Any) -> dict[str, Any]:
    named: Any = {"key": KEY, "sequencer": sequencer, "etag": "b", "version_id": version}
    return events.created(**named | more)


def deleted(sequencer: str = "0C", version: str | None = None, **more: Any) -> dict[str, Any]:
    named: Any = {"key": KEY, "sequencer": sequencer, "version_id": version}
    return events.deleted(**named | more)


class Call(NamedTuple):
    """A call of S3; an answer with a ``status`` is an error, of the ``code`` if S3 sends one."""

    operation: str
    parameters: dict[str, Any]
    answer: dict[str, Any]


def output(sequencer: str, etag: str = "1", key: str = OUTPUT, **metadata: str) -> Call:
    """Find an output, with the sequencer of its event and more metadata."""
    named = {"-".join(name.split("_")): value for name, value in metadata.items()}
    answer = {"ETag": f'"{etag}"', "Metadata": {"sequencer": sequencer, **named}}
    return Call("HeadObject", {"Bucket": "output", "Key": key}, answer)


VERSION_OUTPUT = output("0B", key=OF_VERSION, source_version_id="v1")


def no_output(key: str = OUTPUT) -> Call:
    return fails(output("", key=key), 404)


def read(
    content: str = "B",
    etag: str | None = "b",
    key: str = KEY,
    version: str | None = None,
    **answer: Any,
) -> Call:
    """Read the source if it has this ETag, or a named version of it; S3 may answer more."""
    parameters = {"Bucket": "input", "Key": key}
    parameters |= {"IfMatch": f'"{etag}"'} if etag else {}
    parameters |= {"VersionId": version} if version else {}
    return Call("GetObject", parameters, {"Body": content, **answer})


def write(
    content: str = "B",
    etag: str | None = None,
    *,
    sequencer: str = "0B",
    source_etag: str = "b",
    version: str | None = None,
    key: str = OUTPUT,
    is_fenced: bool = True,
    **more: Any,
) -> Call:
    """Write the output of a content: in place of the output with this ETag, or of none."""
    metadata = {"sequencer": sequencer, "source-bucket": "input", "source-etag": source_etag}
    metadata |= {"source-version-id": version} if version else {}
    parameters = {
        "Bucket": "output",
        "Key": key,
        "Body": f"made of {content}\n{sequencer}#{version or ''}".encode(),
        "ContentType": "text/plain",
        "Metadata": metadata | more.pop("Metadata", {}),
        **more,
    }
    condition = {"IfMatch": f'"{etag}"'} if etag else {"IfNoneMatch": "*"}
    return Call("PutObject", parameters | (condition if is_fenced else {}), {"ETag": '"9"'})


def delete(etag: str, key: str = OUTPUT) -> Call:
    """Delete the output with this ETag."""
    return Call("DeleteObject", {"Bucket": "output", "Key": key, "IfMatch": f'"{etag}"'}, {})


def source(etag: str = "b", current: str | None = None, version: str | None = None) -> Call:
    """Find the source: its current version, unless another one is named."""
    parameters = {"Bucket": "input", "Key": KEY} | ({"VersionId": version} if version else {})
    answer = {"ETag": f'"{etag}"'} | ({"VersionId": current} if current else {})
    return Call("HeadObject", parameters, answer)


def no_source(version: str | None = None) -> Call:
    return fails(source(version=version), 404)


def fails(call: Call, status: int, code: str | None = None) -> Call:
    """Let S3 answer a call with an error; it sends no code with the answer to a HEAD."""
    return call._replace(answer={"status": status, "code": code or str(status)})


def overtaken(call: Call) -> Call:
    """Let a condition fail, because another writer has come first."""
    return fails(call, 412, "PreconditionFailed")


@cache
def client() -> Any:
    return boto3.client("s3", "us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


def answer(
    event: dict[str, Any], *calls: Call, fence: str = "newest", **options: Any
) -> dict[str, str]:
    """Run the fence, which must make these calls and no other; give its answer.

    The work writes ``made of <content>``. It must not be called twice for one content, and there is
    memory for one result. No pause takes time. The options are those of `Fence`.
    """
    contents: list[bytes] = []
    results = weakref.WeakSet[InvertedImage]()

    def work(content: bytes) -> InvertedImage:
        assert not results
        assert content not in contents
        contents.append(content)
        if content == b"bad":
            raise Bad("It is bad.")
        result = InvertedImage(b"made of " + content, "text/plain")
        results.add(result)
        return result

    s3 = client()
    options = {"handles_deletions": True} | options
    fenced = Fence(s3, "output", MAXIMUM_BYTES, work, rejection=Bad, **options)
    clock = patch("inorder_fence.fenced_output.time", Mock(**{"time.return_value": 0.9}))
    with clock, Stubber(s3) as stubber:
        for call in calls:
            _expect(stubber, call)
        try:
            return fenced.answer({"event": event, "fence": fence}, DAYS)
        finally:
            stubber.assert_no_pending_responses()


def outcome(event: dict[str, Any], *calls: Call, **options: Any) -> str:
    """Give the outcome or, of a rejection, its error: it has a cause, too, and no output."""
    answered = answer(event, *calls, **options)
    told = {"error", "cause"} if answered["outcome"] == "Rejected" else {"output_key"}
    assert answered.keys() == {"outcome", "expires_at"} | told
    assert all(answered.values())
    return answered.get("error", answered["outcome"])


class Case(NamedTuple):
    """The calls for an event, and what `outcome` gives."""

    expected: str
    event: dict[str, Any]
    calls: tuple[Call, ...]
    options: dict[str, Any]

    def check(self, **options: Any) -> None:
        assert outcome(self.event, *self.calls, **self.options, **options) == self.expected


def ends_as(expected: str, event: dict[str, Any], *calls: Call, **options: Any) -> Case:
    return Case(expected, event, calls, options)


processed, superseded = partial(ends_as, "Processed"), partial(ends_as, "Superseded")


def _expect(stubber: Stubber, call: Call) -> None:
    method = "_".join(re.findall("[A-Z][a-z0-9]*", call.operation)).lower()
    response = dict(call.answer)
    if "status" in response:
        status, code = response["status"], response["code"]
        stubber.add_client_error(method, code, "", status, expected_params=call.parameters)
        return
    if "Body" in response:
        content = response["Body"].encode()
        length = response.setdefault("ContentLength", len(content))
        response["Body"] = StreamingBody(BytesIO(content), length)
    stubber.add_response(method, response, call.parameters)
