"""Do the templates fit? One deploys the file and gives it what it asks for, one watches it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from inorder.asl.definition import is_end, parse
from inorder.asl.roles import Role, does, doing

WATCHING = "stacks/monitoring/template.yaml"  # its filters and its dashboard name states


def findings(file: Path, text: str) -> Iterator[tuple[str, str, str]]:
    """Compare a file with the templates of its project, ``..``, if there are any."""
    project = file.resolve().parent.parent
    if (project / WATCHING).is_file():
        yield from _unwatched(text, (project / WATCHING).read_text(encoding="utf-8"))
    template = project / "template.yaml"
    if not template.is_file():
        return
    from samcli.yamlhelper import yaml_parse  # noqa: PLC0415 - takes long, as `graph._schema` says

    try:
        content = template.read_text(encoding="utf-8")
        resources = yaml_parse(content)["Resources"].values()
        machines = [each["Properties"] for each in resources if "Properties" in each]
    except Exception as error:  # of the YAML parser, or of a template without sense
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
        lacks = [f"gives nothing for ${{{name}}}" for name in sorted(asked_for - given)]
        lacks += [f"gives {name}, which the file does not ask for" for name in given - asked_for]
        for wrong in lacks:
            yield "", "substitutions", f"{template.name} {wrong}"


def _unwatched(text: str, watching: str) -> Iterator[tuple[str, str, str]]:
    """Find the ends and the breaks of locks that the metrics do not know."""
    states = parse(text)["States"]
    if not doing(states, Role.PARKS, Role.RETRIES):  # a file without a queue has no metrics
        return
    for name, state in states.items():
        if (is_end(state) or does(state, Role.BREAKS)) and f'"{name}"' not in watching:
            yield name, "names", f'{WATCHING} does not have "{name}" in its filters'
