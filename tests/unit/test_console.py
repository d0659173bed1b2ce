"""What the console's server answers, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from inorder.aws import parked
from inorder.console import saved
from inorder.console.answers import PICTURE_TYPES, Answers
from inorder.console.server import LARGEST_BODY, application
from tests.conftest import picture
from tests.support.in_process import INPUT, OUTPUT, InProcess
from tests.unit.test_inspection import RED, LocalConnection, connection

PORT, TOKEN = 4321, "the-token"
HOST = f"127.0.0.1:{PORT}"
KNOWN = {"X-Inorder-Token": TOKEN}
CHANGING = {"Origin": f"http://{HOST}"} | KNOWN
STRANGE = "<b>a</b>\u202e\u05e9.png"


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


def posted(client: TestClient, path: str, body: Any) -> Any:
    answer = client.post(f"/api/{path}", json=body, headers=CHANGING)
    assert answer.status_code == 200, answer.text
    return answer.json()


# What is refused

READ = ["stack", "definition", "executions", "execution?arn=x", "story?key=x", "parked", "retrying"]
READ += ["picture?which=source&key=x", "none", "../api/stack"]


def status(
    client: TestClient, path: str, method: str = "GET", ids: Sequence[str] = (), **headers: Any
) -> int:
    """Ask as the page does, but with other headers, or without those that are None."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"X-Inorder-Token": TOKEN, "Origin": f"http://{HOST}"} | named
    del client.headers["X-Inorder-Token"]
    known = {name: value for name, value in sent.items() if value is not None}
    answer = client.request(method, path, headers=known, json={"ids": [*ids], "dry_run": False})
    client.headers.update(KNOWN)
    assert answer.status_code < 400 or [*answer.json()] == ["error"]
    return answer.status_code


def test_only_the_loopback_address_is_served(aws: InProcess, here: LocalConnection) -> None:
    answers = Answers(here, aws.state_machine)
    client = serving(answers)
    for host in (HOST, f"localhost:{PORT}", f"[::1]:{PORT}"):
        assert status(client, "/api/definition", Host=host) == 200
        assert status(client, "/api/redrive", "POST", Host=host, Origin=f"http://{host}") == 200
    for host in ("evil.example", f"evil.example:{PORT}", "", "127.0.0.1", f"127.0.0.1:{PORT + 1}"):
        for path in ("/", "/api/stack", "/page/html.js", "/page/none"):
            assert status(client, path, Host=host) == 403
    # A browser leaves out the port if it is 80.
    assert status(serving(answers, 80), "/api/definition", Host="127.0.0.1") == 200


def test_nothing_is_read_or_changed_without_the_token_but_the_page_which_has_no_data(
    client: TestClient,
) -> None:
    other_tokens: list[Any] = [None, "", "the-tokem", "the-tök".encode()]
    for token in other_tokens:
        for path in (*READ, "redrive"):
            assert status(client, f"/api/{path}", X_Inorder_Token=token) == 401
        assert status(client, "/api/redrive", "POST", X_Inorder_Token=token) == 401
    assert status(client, "/page/app.js", X_Inorder_Token=None) == 200
    del client.headers["X-Inorder-Token"]
    page = client.get("/")
    assert (page.status_code, TOKEN in page.text, INPUT in page.text) == (200, False, False)


def test_another_site_may_link_to_the_page_but_neither_read_nor_frame_it(
    client: TestClient,
) -> None:
    linked = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    for path in ("/api/story?key=x", "/api/picture?which=source&key=x", "/page/"):
        assert status(client, path, **linked) == 403
    assert status(client, "/", **linked) == 200
    assert status(client, "/", **linked | {"Sec_Fetch_Mode": "no-cors"}) == 403
    assert status(client, "/api/story?key=x", Sec_Fetch_Site="same-site") == 403


def test_only_the_page_itself_changes_anything(aws: InProcess, client: TestClient) -> None:
    changes: list[dict[str, Any]] = [
        *({"Origin": each} for each in (None, "null", "http://evil.example", f"https://{HOST}")),
        {"Origin": f"http://localhost:{PORT}"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
    ]
    aws.run({"no": "event"})
    [event] = got(client, "parked")["events"]
    for change in changes:
        assert status(client, "/api/redrive", "POST", [event["id"]], **change) == 403, change
    assert status(client, "/api/redrive") == 405
    assert len(aws.state_machine.arns()) == 1
    assert status(client, "/api/redrive", "POST", [event["id"]]) == 200
    aws.state_machine.wait_for(2)


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


def test_pictures_are_shown_whatever_the_object_says_it_is_and_nothing_else(
    aws: InProcess, client: TestClient
) -> None:
    asked = {"which": "source", "key": STRANGE}
    for file_format in PICTURE_TYPES:
        content = picture((255, 0, 0), file_format)
        aws.s3.put_object(Bucket=INPUT, Key=STRANGE, Body=content, ContentType="text/html")
        answer = client.get("/api/picture", params=asked)
        assert (answer.status_code, answer.content) == (200, content)
        assert answer.headers["Content-Type"] == f"image/{file_format.lower()}"
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    asked = {"which": "output", "key": "x"}
    for content in (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"", picture((0, 0, 0), "BMP")):
        aws.s3.put_object(Bucket=OUTPUT, Key="x", Body=content, ContentType="image/png")
        assert client.get("/api/picture", params=asked).status_code == 415


def test_a_bad_question_is_named_and_so_is_an_error_of_aws(
    here: LocalConnection, client: TestClient
) -> None:
    for question in ("execution", "picture?which=table&key=x"):
        assert status(client, f"/api/{question}") == 400
    here.refused = {"sqs"}
    answer = client.get("/api/parked")
    assert (answer.status_code, "not allowed" in answer.json()["error"]) == (502, True)


# What is changed


def test_a_dry_run_names_what_a_redrive_starts_and_a_redrive_starts_that(
    aws: InProcess, client: TestClient
) -> None:
    def parked_events() -> dict[str | None, Any]:
        return {each["key"]: each for each in got(client, "parked")["events"]}

    aws.run({"no": "event"})
    [invalid] = parked_events().values()
    only = {"ids": [invalid["id"]], "dry_run": True}  # even an invalid event, if it is the only one
    assert posted(client, "redrive", only) == {"started": [invalid["id"]], "left_out": []}
    event = aws.upload(STRANGE, b"no image")
    aws.run(event)
    first = parked_events()[STRANGE]
    assert (first["body"]["event"], invalid["key"]) == (event, None)
    body = {"ids": [first["id"], invalid["id"], "gone", first["id"]], "dry_run": True}
    planned = posted(client, "redrive", body)
    assert planned["started"] == [first["id"]]
    assert [each["id"] for each in planned["left_out"]] == [invalid["id"], "gone"]
    assert "would fail again" in planned["left_out"][0]["reason"]
    assert (len(aws.state_machine.arns()), len(parked_events())) == (2, 2)
    assert posted(client, "redrive", body | {"dry_run": False}) == planned
    aws.state_machine.wait_for(3)
    assert parked_events()[STRANGE]["id"] != first["id"]  # it has been parked anew


def test_a_bad_change_is_named(client: TestClient) -> None:
    for body, code in [
        *((body, 400) for body in (b"{", b"[" * 100_000, b"[]")),
        (b" " * (LARGEST_BODY + 1), 413),
        (b'{"ids": "all", "dry_run": false}', 400),
        (b'{"ids": [], "dry_run": 0}', 400),
    ]:
        answer = client.post("/api/redrive", content=body, headers=CHANGING)
        assert (answer.status_code, set(answer.json())) == (code, {"error"}), body[:50]


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
    assert definition["roles"]["Claim Key"] == ["claims", "records"]
    assert (definition["roles"]["S3 Object Event?"], definition["returned"]) == ([], {})
    assert html.index("connect-src 'none'") < html.index(data)
