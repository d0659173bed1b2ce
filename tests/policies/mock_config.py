"""What Step Functions Local mocks in the stories: `python -m tests.policies.mock_config FILE`.

It mocks only the states that a policy's table names in `Cases.mocked`.
"""

import json
import sys
from pathlib import Path

from tests.policies.table import RESPONSES
from tests.policies.tables import TABLES

NOT_ALL = "AllRealButTheEventBus"  # the name of the test case, which follows a machine's ARN


def write(file: Path) -> None:
    machines = {
        policy: {"TestCases": {NOT_ALL: table.mocked}}
        for policy, table in TABLES.items()
        if table.mocked
    }
    used = {name for table in TABLES.values() for name in table.mocked.values()}
    responses = {name: {"0": RESPONSES[name]} for name in sorted(used)}
    config = {"StateMachines": machines, "MockedResponses": responses}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
