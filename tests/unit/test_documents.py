"""README, CONTRIBUTING and docs: links lead somewhere, names and defaults are the code's."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from botocore.loaders import Loader
from markdown_it import MarkdownIt
from markdown_it.token import Token

from inorder import PROJECT
from inorder.asl.definition import is_end
from inorder.model.policies import definition
from tests.support.resolved_template import of_type, template

DOCUMENTS = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    PROJECT / "CHANGELOG.md",
    PROJECT / "SECURITY.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "examples").glob("*/README.md")),
    PROJECT / "functions" / "inorder_fence" / "README.md",
]
EACH_DOCUMENT = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda document: str(document.relative_to(PROJECT))
)
STATES = {
    state
    for file in [*PROJECT.glob("statemachine/*.asl.json"), *PROJECT.glob("examples/*/*.asl.json")]
    for state in json.loads(file.read_text())["States"]
}


@cache
def tokens(document: Path) -> list[Token]:
    """Parse a document into one list of block and inline tokens."""
    parser = MarkdownIt("gfm-like", {"linkify": False})
    return [
        nested
        for token in parser.parse(document.read_text())
        for nested in [token, *(token.children or [])]
    ]


def links(document: Path) -> Iterator[str]:
    """List the targets of a document's links and images that are not on another site."""
    for token in tokens(document):
        for attribute in ("href", "src"):
            target = str(token.attrs.get(attribute, ""))
            if target and not urlsplit(target).scheme:
                yield target


def anchors(document: Path) -> set[str]:
    """Name a document's headings as GitHub does in the addresses of their anchors."""
    seen: Counter[str] = Counter()
    names = set()
    for opening, inline in pairwise(tokens(document)):
        if opening.type != "heading_open":
            continue
        parts = inline.children or []
        text = "".join(part.content for part in parts if part.type in {"text", "code_inline"})
        slug = "-".join("".join(re.findall(r"[\w\- ]", text.strip().lower())).split(" "))
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return names


@EACH_DOCUMENT
def test_links_lead_to_files_and_anchors_to_headings(document: Path) -> None:
    broken = []
    assert anchors(document)
    for link in links(document):
        path, _, anchor = link.partition("#")
        target = (document.parent / unquote(path)).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@EACH_DOCUMENT
def test_states_that_a_document_names_exist(document: Path) -> None:
    emphasised = {
        text.content for opening, text in pairwise(tokens(document)) if opening.type == "em_open"
    }
    nodes = {
        name
        for token in tokens(document)
        if token.type == "fence" and token.info.strip() == "mermaid"
        for name in re.findall(r"\w[\[{]([^\](){}]+)[\]}]", token.content)
    }
    title_case = {name for name in emphasised if re.fullmatch(r"[A-Z]\w*( [A-Z]\w*)+\??", name)}
    assert (title_case | nodes) - STATES == set()


def test_the_page_of_parameters_lists_those_of_the_template() -> None:
    text = (PROJECT / "docs" / "parameters.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.MULTILINE)
    parameters = template()["Parameters"]
    assert len(rows) == len(parameters)
    assert dict(rows) == {
        name: f"`{parameter['Default']}`" if parameter["Default"] != "" else "(empty)"
        for name, parameter in parameters.items()
    }


@EACH_DOCUMENT
def test_messages_are_moved_to_a_queue_that_is_named(document: Path) -> None:
    """Without one, SQS moves only what another queue's redrive policy has brought.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
    """
    for command in re.findall(r"start-message-move-task[^`]*", document.read_text()):
        assert "--destination-arn " in command


def test_the_protocol_lists_clauses_and_rules_of_the_file() -> None:
    text = (PROJECT / "docs" / "protocol.md").read_text(encoding="utf-8")
    states = definition("latest-wins")["States"]
    clauses = dict(re.findall(r"\b([CRL]\d) \w+(?: \||:\*\*) `([^`]+)`", text))
    conditions = {
        "Claim Key": "({C1} AND ({C2} OR {C3} OR ({C4}))) OR ({C5})",
        "Record Newest Event": "{R1} OR {R2}",
        "Release Lock": "{L1} AND {L2}",
        "Release Unprocessed Key": "{L1} AND {L2}",
        "Release Lock Only": "{L1}",
    }
    for state, combined in conditions.items():
        condition = states[state]["Parameters"]["ConditionExpression"]
        assert combined.format(**clauses) == condition, state
        names = re.findall(r"[CRL]\d", combined)
        assert re.findall(r"[CRL]\d", states[state]["Comment"]) == names, state
    rules = re.findall(r"^\| (K\d) .* \| \*([\w ]+)\*[^|]* \|$", text, re.MULTILINE)
    choice = states["Key State?"]
    following = [*(rule["Next"] for rule in choice["Choices"]), choice["Default"]]
    assert rules == [*zip(re.findall(r"K\d", choice["Comment"]), following, strict=True)]


def section(heading: str) -> str:
    """Give a section of docs/operate.md."""
    text = (PROJECT / "docs" / "operate.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_a_query_names_the_states_of_the_state_machines() -> None:
    """A query that names a missing state, or not each end, answers with less and says nothing."""
    policies = template()["Parameters"]["Policy"]["AllowedValues"]
    states = dict(state for policy in policies for state in definition(policy)["States"].items())
    ends = {name for name, state in states.items() if is_end(state)}
    model = Loader().load_service_model("stepfunctions", "service-2")
    types = set(model["shapes"]["HistoryEventType"]["enum"])
    lists = re.findall(r"details\.name (?:=|in) (.+)", section("Queries"))
    named = [set(re.findall(r'"([A-Z][\w ?]+)"', names)) - types for names in lists]
    assert len(named) >= 3
    assert set.union(*named) <= states.keys()
    assert [names for names in named if "Processed" in names and not names >= ends] == []


def test_the_runbook_lists_all_alarms_and_their_cost() -> None:
    text = section("Alarms")
    alarms = [*of_type(template()["Resources"], "CloudWatch::Alarm")]
    assert re.findall(r"^\| `(\w+Alarm)` \|", text, re.MULTILINE) == alarms
    assert f"alarms, which cost {len(alarms) / 10:.2f} dollars a month" in text
