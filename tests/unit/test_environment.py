"""What commands say if their arguments or the user's AWS settings are wrong: one line."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner, Result

from inorder import cli


def run(*arguments: str) -> Result:
    return CliRunner(mix_stderr=False).invoke(cli.main, arguments)


@pytest.mark.parametrize("arguments", [[], [""], ["--all", "0"]])
def test_redrive_needs_to_know_which_events(arguments: list[str]) -> None:
    result = run("redrive", "--stack-name", "any", *arguments)
    assert result.exit_code == 2
    assert "Say which: ID" in result.stderr


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "credentials"),
        ({"AWS_DEFAULT_REGION": ""}, "region"),
        ({"AWS_PROFILE": "nobody"}, "nobody"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1"),
        ({"AWS_ENDPOINT_URL": "nonsense"}, "nonsense"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_setting_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], named: str
) -> None:
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    for name, value in (nothing | {"AWS_EC2_METADATA_DISABLED": "true"} | environment).items():
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    result = run("parked", "--stack-name", "any")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert named in line
