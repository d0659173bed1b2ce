"""Writes the mocks of all paths: `python -m tests.policies.mock_config FILE`.

Step Functions Local counts the responses of a state over a whole execution, attempts included.
ministack reads one response whenever a state is entered, and repeats it in all attempts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.policies.paths import paths
from tests.policies.table import RESPONSES, Data
from tests.policies.tables import TABLES

NOT_ALL = "AllRealButTheEventBus"  # the case that mocks `Cases.mocked` only
METADATA = {"SdkHttpMetadata": {"HttpStatusCode": 200}}


def mock_config(*, of_attempts: bool = True) -> Data:
    """Build the file, with a response to each attempt or, for ministack, to each Task."""
    used: dict[str, Data] = {}

    def mocked(responses: Mapping[str, list[str]]) -> dict[str, str]:
        """Name the responses of each state."""
        names = {state: "".join(given) for state, given in responses.items()}
        for state, given in responses.items():
            used[names[state]] = {str(at): _response(each) for at, each in enumerate(given)}
        return names

    cases = {
        policy: {
            name: mocked(path.responses(of_attempts=of_attempts))
            for name, path in paths(policy).items()
        }
        | {NOT_ALL: mocked(table.mocked)}
        for policy, table in TABLES.items()
    }
    machines = {policy: {"TestCases": each} for policy, each in cases.items()}
    return {"StateMachines": machines, "MockedResponses": used}


def _response(name: str) -> Data:
    response = RESPONSES[name]
    return {"Return": METADATA | response["Return"]} if "Return" in response else response


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(mock_config(), indent=2) + "\n", encoding="utf-8")
