"""What the console's server answers, and what it refuses."""

import hashlib
import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inorder.aws import parked
from inorder.console import saved
from inorder.console.answers import Answers
from inorder.console.server import application
from tests.support.in_process import INPUT, InProcess
from tests.unit.test_inspection import RED, LocalConnection, connection

TOKEN = "the-token"  # noqa: S105 - of a test
WRONG_TOKENS = ("", "the-tokem", "the-tök".encode())
WITH_TOKEN = {"X-Inorder-Token": TOKEN}


@pytest.fixture
def here(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> LocalConnection:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)
    return connection(aws)


@pytest.fixture
def client(aws: InProcess, here: LocalConnection) -> TestClient:
    """Give a client that knows the token."""
    return TestClient(application(Answers(here, aws.state_machine), TOKEN), headers=WITH_TOKEN)


# What is refused

READ = ["stack", "definition", "executions", "execution?arn=x", "story?key=x"]


def test_without_the_token_only_a_page_without_data_is_read(client: TestClient) -> None:
    del client.headers["X-Inorder-Token"]
    wrong_headers: list[Any] = [{}, *({"X-Inorder-Token": token} for token in WRONG_TOKENS)]
    for headers in wrong_headers:
        for path in (*READ, "none", "../api/stack"):
            answer = client.get(f"/api/{path}", headers=headers)
            assert (answer.status_code, [*answer.json()]) == (401, ["error"])
    assert client.get("/page/app.js").status_code == 200
    page = client.get("/")
    assert (page.status_code, TOKEN in page.text, INPUT in page.text) == (200, False, False)


def test_there_is_no_request_that_changes_anything(client: TestClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in READ:
            assert client.request(method, f"/api/{path}").status_code == 405


def test_only_scripts_of_the_page_may_run(client: TestClient) -> None:
    page = client.get("/")
    [script] = re.findall(r'<script type="importmap">(.+?)</script>', page.text)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = page.headers["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'none'"} < {*policy}
    assert f"script-src 'sha256-{digest}' 'self'" in policy
    assert re.findall(r"<script(?![^>]* src=)", page.text) == ["<script"]
    for path in ("/", "/page/html.js", "/api/stack", "/api/none", "/none"):
        headers = client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert (headers["Cache-Control"] == "no-store") == path.startswith("/api/")


# What is answered


def test_bad_questions_and_aws_errors_are_named(here: LocalConnection, client: TestClient) -> None:
    assert client.get("/api/execution").status_code == 400
    here.refused = {"stepfunctions"}
    answer = client.get("/api/definition")
    assert (answer.status_code, "not allowed" in answer.json()["error"]) == (502, True)


# What is saved


def test_no_text_ends_the_data_element_of_a_saved_page(
    aws: InProcess, here: LocalConnection, tmp_path: Path
) -> None:
    key = "</script><!--<script>\u2028.png"
    aws.run(aws.upload(key, RED))
    aws.run(aws.upload("broken.png", b"no image"))
    aws.run({"no": "event"})
    file = tmp_path / "folder" / "page.html"
    saved.write(file, saved.read(Answers(here, aws.state_machine)))
    html = file.read_text(encoding="utf-8")
    assert html.count("</script>") == 3
    [data] = re.findall(r'<script type="application/json" id="saved">(.*?)</script>', html)
    answers = json.loads(data)
    assert {"policy": "latest-wins", "is_local": False}.items() <= answers["/api/stack"].items()
    assert set(answers["/api/story"]) == {key, "broken.png"}
    definition = answers["/api/definition"]
    assert definition["roles"]["Claim Key"] == ["claims", "records"]
    assert definition["roles"]["S3 Object Event?"] == []
    assert html.index("connect-src 'none'") < html.index(data)
