"""Does the template fit? It deploys the file, gives it what it asks for, and knows its states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from inorder.asl import names
from inorder.asl.definition import parse


def findings(file: Path, text: str) -> Iterator[tuple[str, str, str]]:
    """Compare a file with the template of its project, ``../template.yaml``, if there is one."""
    template = file.resolve().parent.parent / "template.yaml"
    if not template.is_file():
        return
    from samcli.yamlhelper import yaml_parse  # noqa: PLC0415 - takes long, as `graph._schema` says

    try:
        content = template.read_text(encoding="utf-8")
        resources = yaml_parse(content)["Resources"].values()
        machines = [each["Properties"] for each in resources if "Properties" in each]
    except Exception as error:  # the YAML parser's, or that of a template without sense
        yield "", "template", f"{template.name} cannot be read: {' '.join(str(error).split())}"
        return
    named = [
        each
        for each in machines
        if isinstance(each.get("DefinitionUri"), str)
        and (template.parent / each["DefinitionUri"]).resolve() == file.resolve()
    ]
    if not named:
        yield "", "template", f"no resource of {template.name} names this file"
    asked_for = set(re.findall(r"\$\{(\w+)\}", text))
    for machine in named:
        given = set(machine.get("DefinitionSubstitutions", {}))
        for name in sorted(asked_for - given):
            yield "", "substitutions", f"{template.name} gives nothing for ${{{name}}}"
        for name in sorted(given - asked_for):
            yield (
                "",
                "substitutions",
                f"{template.name} gives {name}, which the file does not ask for",
            )
    for state, wrong in names.findings(parse(text), content):
        yield state, "names", wrong
