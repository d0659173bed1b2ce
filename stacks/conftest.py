"""The fixtures of tests/ for the tests of the companions, which are beside their stacks."""

from tests.conftest import aws, local, no_aws_of_the_users, null_versions, sam
from tests.stack.conftest import inorder, workflow
from tests.unit.conftest import lines, load
