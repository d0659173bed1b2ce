"""docs/cost.md shows what the command prints, and what bench/scale.py computes."""

from __future__ import annotations

import re
import shlex
import tomllib

from click.testing import CliRunner

from bench import scale
from inorder import PROJECT
from inorder.commands.main import main
from inorder.model.policies import policy

EXAMPLE = r"```sh\n\.venv/bin/inorder (cost .*)\n```\n\n```\n((?:.*\n)*?)```\n"


def example(found: re.Match[str]) -> str:
    """Give an example with the output that its command prints now."""
    printed = CliRunner().invoke(main, shlex.split(found[1])).stdout
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return found[0].replace(found[2], lines)


def test_the_examples_are_what_the_command_prints() -> None:
    """Run `python -m tests.unit.test_cost_documents` to write them."""
    text = (PROJECT / "docs" / "cost.md").read_text()
    assert len(re.findall(EXAMPLE, text)) == 1
    assert re.sub(EXAMPLE, example, text) == text


def test_the_tables_of_scale_are_those_that_are_computed() -> None:
    text = (PROJECT / scale.DOCUMENT).read_text()
    assert scale.written(text) == text


def test_each_quota_has_a_source_and_is_reached_at_some_rate() -> None:
    needs = scale.needs(policy("latest-wins"), scale.workload())
    for name, row in tomllib.loads((PROJECT / "bench" / "quotas.toml").read_text()).items():
        if isinstance(row, dict):
            assert row["source"].startswith("https://docs.aws.amazon.com/"), name
            assert needs[row["per_event"]] > 0


if __name__ == "__main__":
    page = PROJECT / "docs" / "cost.md"
    page.write_text(re.sub(EXAMPLE, example, page.read_text()))
