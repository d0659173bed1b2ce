"""Runs checkov on the template of each policy and condition: `make checkov`.

checkov pins versions that do not fit the project's lock, so the arguments are a command that runs
it in an environment of its own.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click

from inorder import PROJECT
from tests.support.resolved_template import resources_with
from tests.template.deployed import FUNCTION, KEY, POLICIES, TOPIC

OUT = PROJECT / "out" / "checkov"
ACCEPTED = Path(__file__).with_name("accepted.toml")
# With the policies, these values make each condition true and false.
OPTIONS: list[dict[str, str]] = [
    {},
    {"InputBucketName": "in", "WorkFunctionArn": FUNCTION},
    {"KmsKeyArn": KEY, "InputBucketVersioning": "Enabled", "AlarmTopicArn": TOPIC},
]


def findings(checkov: list[str]) -> set[tuple[str, str, str]]:
    """List what checkov, a command, finds: check, its name, resource."""
    OUT.mkdir(parents=True, exist_ok=True)
    stacks = {
        f"{policy}-{number}": resources_with({"Policy": policy, **options})
        for policy in POLICIES
        for number, options in enumerate(OPTIONS)
    }
    for name, resources in stacks.items():
        text = json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources})
        (OUT / f"{name}.json").write_text(text, encoding="utf-8")
    # checkov searches a file's path for secrets too, so the path must not depend on the checkout.
    command = [*checkov, "--directory", ".", "--framework", "cloudformation"]
    command += ["--compact", "--quiet", "--skip-download", "--output", "json", "--soft-fail"]
    environment = os.environ | {"BC_ANALYTICS": "0"}
    output = subprocess.check_output(command, cwd=OUT, env=environment, text=True)  # noqa: S603
    report: dict[str, Any] = json.loads(output[: output.rindex("}") + 1])
    if report["summary"]["parsing_errors"] or len(list(OUT.glob("*.json"))) != len(stacks):
        raise click.ClickException("checkov did not read every template.")
    failed = report["results"]["failed_checks"]
    return {(check["check_id"], check["check_name"], check["resource"]) for check in failed}


def main(checkov: list[str]) -> int:
    """Print the findings that are not accepted, and the accepted ones that are not found."""
    accepted = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))
    all_findings = findings(checkov)
    unknown = sorted(finding for finding in all_findings if finding[0] not in accepted)
    unused = sorted(set(accepted) - {check for check, _, _ in all_findings})
    for check, name, resource in unknown:
        click.echo(f"UNKNOWN FINDING: {check} {name}: {resource}", err=True)
    for check in unused:
        click.echo(f"ACCEPTED BUT NOT FOUND: {check}", err=True)
    click.echo(
        f"{len(all_findings)} findings, {len(unknown)} unknown, {len(accepted)} checks accepted"
    )
    return int(bool(unknown or unused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
