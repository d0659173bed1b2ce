"""The fence in Python runs all vectors (tests/vectors/README.md), and that in TypeScript some."""

import json
import re
import subprocess
import weakref
from io import BytesIO
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.stub import Stubber
from playwright._impl._driver import compute_driver_executable
from samcli.yamlhelper import yaml_parse

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
EXAMPLES = PROJECT / "examples"
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


def test_the_fence_in_typescript_runs_those_of_newest() -> None:
    node, _ = compute_driver_executable()  # of playwright's package, so that none must be installed
    done = subprocess.run(  # noqa: S603
        [node, "--test", "--test-reporter", "tap"],
        cwd=EXAMPLES / "typescript",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    newest = sum(vector["fence"] == "newest" for vector in VECTORS.values())
    assert f"# pass {newest + 1}\n" in done.stdout  # and one of the handler


def test_the_template_of_typescript_bundles_the_sdk_and_gives_the_permissions_of_python() -> None:
    texts = [
        (EXAMPLES / name / "template.yaml").read_text() for name in ("typescript", "json_index")
    ]
    functions = [next(iter(yaml_parse(text)["Resources"].values())) for text in texts]
    policies, other = (each["Properties"]["Policies"] for each in functions)
    assert policies == other
    # SAM installs the dependencies, and esbuild bundles what is imported and not external: the SDK
    # of the runtime may be older, and would send no conditions that it does not know.
    folder = EXAMPLES / "typescript"
    [sdk] = re.findall(r' from "(@?[\w/-]+)"', (folder / "app.ts").read_text())
    assert sdk in json.loads((folder / "package.json").read_text())["dependencies"]
    assert "External" not in functions[0]["Metadata"]["BuildProperties"]
