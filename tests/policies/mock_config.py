"""Writes the mocks of all paths: `python -m tests.policies.mock_config FILE`.

Step Functions Local and ministack read the file. Step Functions Local counts the responses of a
state over a whole execution, attempts included.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path

from inorder import PROJECT
from inorder.model.policies import asl_file
from tests.policies.common import RESPONSES, Data
from tests.policies.common import Path as MockedPath
from tests.policies.tables import TABLES
from tests.state_machines import substitute

# Mocks one service only, for an engine that cannot be pointed at a local one.
NOT_ALL_MOCKED = ("content-hash", "AllRealButTheEventBus", {"Forward Event": ["Forwarded"]})
# What stands for the names in the files, as no service is called.
SUBSTITUTIONS: dict[str, str] = defaultdict(lambda: "mocked")
METADATA = {"SdkHttpMetadata": {"HttpStatusCode": 200}}


def mocked_definition(policy: str) -> str:
    """Read a policy's ASL file for mocked services, which cannot know a random lock token."""
    text = substitute(PROJECT / asl_file(policy), SUBSTITUTIONS)
    return text.replace('"lock_token.$": "States.UUID()"', '"lock_token": "mine"')


def responses_of(path: MockedPath) -> dict[str, list[str]]:
    """Give the names of all responses of each Task of a path, in order."""
    given: dict[str, list[str]] = defaultdict(list)
    for entry in path.entries:
        if entry.responses:
            given[entry.state] += entry.responses
    return given


def mock_config() -> Data:
    """Build the file for Step Functions Local from the tables."""
    mocked = {
        policy: {name: responses_of(path) for name, path in table.paths.items()}
        for policy, table in TABLES.items()
    }
    policy, case, responses = NOT_ALL_MOCKED
    mocked[policy][case] = responses
    used = [
        given for cases in mocked.values() for case in cases.values() for given in case.values()
    ]
    return {
        "StateMachines": {
            policy: {
                "TestCases": {
                    case: {state: _name(given) for state, given in states.items()}
                    for case, states in cases.items()
                }
            }
            for policy, cases in mocked.items()
        },
        "MockedResponses": {_name(given): _numbered(given) for given in used},
    }


def write(file: Path) -> None:
    """Write the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(mock_config(), indent=2) + "\n", encoding="utf-8")


def _runs(responses: list[str]) -> list[tuple[str, int]]:
    """Count equal responses that follow each other."""
    return [(name, len(list(same))) for name, same in groupby(responses)]


def _name(responses: list[str]) -> str:
    """Name responses, such as Locked29TimesThenDone."""
    runs = _runs(responses)
    return "Then".join(name if times == 1 else f"{name}{times}Times" for name, times in runs)


def _numbered(responses: list[str]) -> Data:
    """Number responses, such as 0-28 and 29."""
    numbered, first = {}, 0
    for name, times in _runs(responses):
        last = first + times - 1
        numbers = str(first) if times == 1 else f"{first}-{last}"
        response = RESPONSES[name]
        returned = {"Return": METADATA | response["Return"]} if "Return" in response else response
        numbered[numbers] = returned
        first = last + 1
    return numbered


if __name__ == "__main__":
    write(Path(sys.argv[1]))
