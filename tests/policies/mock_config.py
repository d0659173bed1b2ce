"""Writes the mocks of all paths: `python -m tests.policies.mock_config FILE`.

Step Functions Local counts the responses of a state over a whole execution, attempts included.
ministack reads one response whenever a state is entered, and repeats it in all attempts.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path

from tests.policies.paths import paths
from tests.policies.services import RESPONSES
from tests.policies.table import Data
from tests.policies.tables import TABLES

# Mocks one service only, for an engine that cannot be pointed at a local one.
NOT_ALL_MOCKED = ("content-hash", "AllRealButTheEventBus", {"Forward Event": ["Forwarded"]})
METADATA = {"SdkHttpMetadata": {"HttpStatusCode": 200}}


def mock_config(*, of_attempts: bool = True) -> Data:
    """Build the file, with a response to each attempt or, for ministack, to each Task."""
    mocked = {
        policy: {
            name: path.responses(of_attempts=of_attempts) for name, path in paths(policy).items()
        }
        for policy in TABLES
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
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(mock_config(), indent=2) + "\n", encoding="utf-8")
