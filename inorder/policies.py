"""A new policy: a copy of another one's ASL, its part of the template, and a first test.

The template is edited as text, because a YAML library would drop its comments and anchors. What is
taken for granted of it: each policy has a value of the parameter Policy, a condition, a state
machine and a role named after it, a line of the output StateMachineArn, and a comment that begins
its block of resources.
"""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from string import Template
from typing import Any

import click
from samcli.yamlhelper import yaml_parse

from inorder.stack import PROJECT

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40
_RULER = 98  # columns of the comments that divide the template
_ANCHOR = re.compile(r"^(?P<start> *(?:- )?(?:\w+: )?)&(?P<name>[\w-]+)")

_TEST = Template('''\
"""The policy $name, as it was made from $source. Change this with the policy."""

from __future__ import annotations

import pytest

from inorder.check import check_file
from inorder.stack import PROJECT
from tests.conftest import picture
from tests.in_process import InProcess

pytestmark = pytest.mark.policy("$name")


def test_the_file_has_no_finding() -> None:
    assert check_file(PROJECT / "statemachine" / "$stem.asl.json") == []


def test_an_event_is_processed(aws: InProcess) -> None:
    ended = aws.run(aws.upload("folder/x.png", picture((255, 0, 0))))
    assert ended.path[-1] == "Processed"
''')


def names(project: Path = PROJECT) -> list[str]:
    """List the policies that the template offers.

    Parameters
    ----------
    project : Path
        Folder of the template.
    """
    template: dict[str, Any] = yaml_parse((project / "template.yaml").read_text(encoding="utf-8"))
    offered: list[str] = template["Parameters"]["Policy"]["AllowedValues"]
    return offered


def asl_file(name: str) -> str:
    """Name the file of a policy, from the project's folder."""
    return f"statemachine/{_stem(name)}.asl.json"


def create(name: str, source: str, project: Path = PROJECT) -> list[Path]:
    """Make a policy that does what another one does, to be edited.

    Parameters
    ----------
    name : str
        Lower-case words with hyphens between them.
    source : str
        The policy to copy.
    project : Path
        Folder of the template.

    Returns
    -------
    list of Path
        The files that were written, the template last.

    Raises
    ------
    click.ClickException
        It cannot be made; then nothing is written.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise click.ClickException(
            f"{name!r} is no name for a policy: lower-case words with hyphens between them, "
            f"{_LONGEST_NAME} characters at most, such as my-policy."
        )
    offered = names(project)
    if name in offered:
        raise click.ClickException(f"The template has a policy {name} already.")
    if source not in offered:
        raise click.ClickException(f"There is no policy {source!r}: {', '.join(offered)}.")
    file = asl_file(name)
    test = f"tests/statemachine/test_{_stem(name)}.py"
    for taken in (file, test):
        if (project / taken).exists():
            raise click.ClickException(f"{taken} exists already.")
    template = project / "template.yaml"
    try:
        definition = (project / asl_file(source)).read_text(encoding="utf-8")
        edited = _with_policy(template.read_text(encoding="utf-8"), name, source)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    texts = {
        project / file: _renamed(definition, name, source),
        project / test: _TEST.substitute(name=name, source=source, stem=_stem(name)),
        template: edited,
    }
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        for path in list(texts)[:-1]:  # the template names them only once it is written
            path.unlink(missing_ok=True)
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    return list(texts)


def _renamed(definition: str, name: str, source: str) -> str:
    """Let the first Comment of an ASL file begin with the new name, as its words before a colon."""
    title = name.replace("-", " ").capitalize()
    return re.sub(
        r'("Comment": ")(?:[^:"]*: )?', rf"\g<1>{title}, made from {source}: ", definition, count=1
    )


def _with_policy(template: str, name: str, source: str) -> str:
    """Add a policy to the template's text, each part of it behind that of the source."""
    new, old = _logical_id(name), _logical_id(source)
    for taken in (new, f"{new}StateMachine", f"{new}Role", f"Like{new}"):
        if re.search(rf"^  {taken}:", template, re.MULTILINE):
            raise click.ClickException(f"The template has a {taken} already: choose another name.")
    machine = _found(rf"  {old}StateMachine:\n(?:    .*\n)+", template)
    role = _found(rf"  {old}Role:\n(?:    .*\n)+", template)
    text = template.replace(machine, "<machine>").replace(role, "<role>")

    # Outside of the two, what depends on the source's condition depends on the new one's as well.
    either = f"Like{old}"
    text = re.sub(rf"^( +- Condition: ){old}\n", rf"\g<0>\g<1>{new}\n", text, flags=re.MULTILINE)
    text, uses = re.subn(
        rf"(^ +(?:- |Condition: )|!If \[){old}\b(?!, !Ref {old}StateMachine)",
        rf"\g<1>{either}",
        text,
        flags=re.MULTILINE,
    )
    conditions = f"  {new}: !Equals [!Ref Policy, {name}]\n"
    if uses:
        conditions += f"  {either}: !Or\n    - Condition: {old}\n    - Condition: {new}\n"

    title = f"  # --- The policy {name}: {asl_file(name)} ".ljust(_RULER, "-")
    copies = _copied(f"{machine}\n{role}", new, old).replace(asl_file(source), asl_file(name))
    arn = _found(rf" +(?:- )*!If \[{old}, !Ref {old}StateMachine, .*\n", text)
    for place, addition in {
        rf"      - {source}\n": f"      - {name}\n",
        rf"  {old}: !Equals .*\n": conditions,
        re.escape(arn): arn.replace("- - ", "  - ").replace(old, new),
        rf"  # --- The policy {source}\b(?:.*\n)+?(?=  # ---|Outputs:)": f"{title}\n\n{copies}\n",
    }.items():
        before = _found(place, text)
        text = text.replace(before, before + addition, 1)
    return text.replace("<machine>", machine).replace("<role>", role)


def _found(pattern: str, template: str) -> str:
    """Give the first text of the template that begins a line and fits."""
    found = re.search(f"^{pattern}", template, re.MULTILINE)
    if not found:
        raise click.ClickException(f"template.yaml is not as expected: nothing fits {pattern!r}.")
    return found.group()


def _copied(resources: str, new: str, old: str) -> str:
    """Copy resources: where one defines an anchor, the copy refers to it."""
    lines: list[str] = []
    depth: float = inf  # of the anchor whose value is left out
    for line in resources.splitlines():
        indent = len(line) - len(line.lstrip())
        if line and indent > depth:
            continue
        anchor = _ANCHOR.match(line)
        depth = indent if anchor else inf
        lines.append(f"{anchor['start']}*{anchor['name']}" if anchor else line)
    return "\n".join(lines).replace(old, new) + "\n"


def _stem(name: str) -> str:
    return name.replace("-", "_")


def _logical_id(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
