"""The files of the page: vendored libraries are as published, and a saved page can hold all."""

import hashlib
import re
from itertools import pairwise

import pytest

from inorder.asl.definition import is_end, targets
from inorder.console.page import FOLDER, modules
from inorder.model import outcomes
from inorder.model.execution import STATUSES
from inorder.model.policies import definition
from tests.console import statechart

MODULES = modules()
OWN = {file for name, file in MODULES.items() if name.startswith("inorder/")}


def test_vendored_files_have_the_listed_digests_and_licences() -> None:
    table = (FOLDER / "vendor" / "VENDORED.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \|.*\[[^]]+\]\((\S+)\) \| `([0-9a-f]{64})` \|$", table, re.M)
    folder = FOLDER / "vendor"
    scripts = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.js")
    }
    assert {name: digest for name, _, digest in rows} == scripts
    licences = {licence for _, licence, _ in rows}
    assert {file.name for file in folder.glob("*.LICENSE")} == licences


def test_each_outcome_and_status_has_a_sign() -> None:
    [table] = re.findall(r"const SIGNS = \{\n(.*?)\n\}", (FOLDER / "words.js").read_text(), re.S)
    ends = outcomes.FINISHED | {outcomes.PARKED, outcomes.RETRYING, outcomes.NOT_PARKED}
    of_the_story = {"Waiting", "Working", "Unknown"}
    named = set(re.findall(r"^  (\w+):", table, re.M))
    assert named == ends | {*STATUSES.values()} - {"Failed"} | of_the_story


@pytest.mark.parametrize("name", sorted(MODULES.values()))
def test_a_module_imports_others_by_their_names(name: str) -> None:
    """A saved page holds no other files."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert set(re.findall(r"""\bfrom ?["']([^"']+)["']""", text)) <= set(MODULES)
    assert not re.search(r"\bimport\(", text)


@pytest.mark.parametrize("name", sorted(OWN))
def test_an_own_module_writes_data_as_text(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    html = r"innerHTML|insertAdjacent|document\.write|\beval\b|new Function"
    assert not re.search(html, text)


def test_the_statechart_has_all_states_and_a_possible_path() -> None:
    states = definition(statechart.POLICY)["States"]
    drawn = re.findall(r'data-state="([^"]+)"', statechart.FILE.read_text(encoding="utf-8"))
    assert sorted(drawn) == sorted(states), "run python -m tests.console.statechart"
    assert all(later in targets(states[state]) for state, later in pairwise(statechart.PATH))
    assert is_end(states[statechart.PATH[-1]])
