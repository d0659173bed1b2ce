"""Which tests are about a policy? `pytest --policy NAME` runs only these."""

import pytest

from inorder.model import policies

NAMES = set(policies.names())


def policies_of(item: pytest.Item) -> set[str]:
    """List the policies in a test's mark or parameters."""
    mark = item.get_closest_marker("policy")
    of_aws = mark.args if mark else ("latest-wins",) if "aws" in item.fixturenames else ()  # type: ignore[attr-defined]
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {value for value in (*of_aws, *parameters) if isinstance(value, str) and value in NAMES}
