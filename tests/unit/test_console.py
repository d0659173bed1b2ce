"""What the console's server answers, and what it refuses."""

from __future__ import annotations

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

PORT, TOKEN = 4321, "the-token"
HOST = f"127.0.0.1:{PORT}"
KNOWN = {"X-Inorder-Token": TOKEN}


@pytest.fixture
def here(aws: InProcess, monkeypatch: pytest.MonkeyPatch) -> LocalConnection:
    monkeypatch.setattr(parked, "RECEIVE_SECONDS", 0)
    return connection(aws)


@pytest.fixture
def client(aws: InProcess, here: LocalConnection) -> TestClient:
    return serving(Answers(here, aws.state_machine))


def serving(answers: Answers, port: int = PORT) -> TestClient:
    """Give a client that knows the token."""
    return TestClient(
        application(answers, port, TOKEN), base_url=f"http://127.0.0.1:{port}", headers=KNOWN
    )


def got(client: TestClient, path: str, **asked: Any) -> Any:
    answer = client.get(f"/api/{path}", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


# What is refused

READ = ["stack", "definition", "executions", "execution?arn=x", "story?key=x", "none"]
READ += ["../api/stack"]


def status(client: TestClient, path: str, method: str = "GET", **headers: Any) -> int:
    """Ask as the page does, but with other headers, or without those that are None."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"X-Inorder-Token": TOKEN} | named
    del client.headers["X-Inorder-Token"]
    known = {name: value for name, value in sent.items() if value is not None}
    answer = client.request(method, path, headers=known)
    client.headers.update(KNOWN)
    assert answer.status_code < 400 or [*answer.json()] == ["error"]
    return answer.status_code


def test_only_the_loopback_address_is_served(aws: InProcess, here: LocalConnection) -> None:
    answers = Answers(here, aws.state_machine)
    client = serving(answers)
    for host in (HOST, f"localhost:{PORT}", f"[::1]:{PORT}"):
        assert status(client, "/api/definition", Host=host) == 200
    for host in ("evil.example", f"evil.example:{PORT}", "", "127.0.0.1", f"127.0.0.1:{PORT + 1}"):
        for path in ("/", "/api/stack", "/page/html.js", "/page/none"):
            assert status(client, path, Host=host) == 403
    # A browser leaves out the port if it is 80.
    assert status(serving(answers, 80), "/api/definition", Host="127.0.0.1") == 200


def test_nothing_is_read_without_the_token_but_the_page_which_has_no_data(
    client: TestClient,
) -> None:
    other_tokens: list[Any] = [None, "", "the-tokem", "the-tök".encode()]
    for token in other_tokens:
        for path in READ:
            assert status(client, f"/api/{path}", X_Inorder_Token=token) == 401
    assert status(client, "/page/app.js", X_Inorder_Token=None) == 200
    del client.headers["X-Inorder-Token"]
    page = client.get("/")
    assert (page.status_code, TOKEN in page.text, INPUT in page.text) == (200, False, False)


def test_another_site_may_link_to_the_page_but_neither_read_nor_frame_it(
    client: TestClient,
) -> None:
    linked = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    for path in ("/api/story?key=x", "/page/"):
        assert status(client, path, **linked) == 403
    assert status(client, "/", **linked) == 200
    assert status(client, "/", **linked | {"Sec_Fetch_Mode": "no-cors"}) == 403
    assert status(client, "/api/story?key=x", Sec_Fetch_Site="same-site") == 403


def test_there_is_no_request_that_changes_anything(client: TestClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in READ[:5]:
            assert status(client, f"/api/{path}", method) == 405


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


def test_a_bad_question_is_named_and_so_is_an_error_of_aws(
    here: LocalConnection, client: TestClient
) -> None:
    assert status(client, "/api/execution") == 400
    here.refused = {"stepfunctions"}
    answer = client.get("/api/definition")
    assert (answer.status_code, "not allowed" in answer.json()["error"]) == (502, True)


# What is saved


def test_no_text_in_the_data_ends_the_element_of_a_saved_page(
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
    assert definition["roles"]["Claim Key"] == ["claims", "records", "shares"]
    assert (definition["roles"]["S3 Object Event?"], definition["returned"]) == (
        [],
        {"Claim Key": "claim"},
    )
    assert html.index("connect-src 'none'") < html.index(data)
