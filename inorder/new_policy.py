"""A new policy, made from another: its ASL, its facts, its part of the template, its tests.

The template and the facts are edited as text, because a YAML or TOML library would drop comments
and anchors. What is expected of the template: a policy has a comment, below which are the resources
named after it (`_PARTS`) and nothing else, and a line in each of some lists (`_entries`). What
holds for some policies is a condition of one line, ``!Or [!Condition LatestWins, ...]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

from inorder import PROJECT
from inorder.errors import Failure
from inorder.model.policies import DOCUMENT, FACTS, asl_file, names, stem, with_tables

TEMPLATE = "template.yaml"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40
# The resources that are named after a policy. Only a state machine that starts itself has the last.
_PARTS = ("StateMachine", "Version", "Alias", "Role", "StartsItself")
_HEADING = "  # --- "  # of the comments that divide the template
_RULER = 98  # their columns


def create(name: str, source: str, project: Path = PROJECT) -> list[Path]:
    """Make a policy that does what another one does, to be edited; or write nothing and fail."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise Failure(
            f"{name!r} is no name for a policy: lower-case words with hyphens between them, "
            f"{_LONGEST_NAME} characters at most, such as my-policy."
        )
    offered = names(project)
    if name in offered:
        raise Failure(f"The template has a policy {name} already.")
    if source not in offered:
        raise Failure(f"There is no policy {source!r}: {', '.join(offered)}.")
    tests = f"tests/policies/{stem(name)}"
    for taken in (asl_file(name), tests, f"{tests}.py"):
        if (project / taken).exists():
            raise Failure(f"{taken} exists already.")
    with _all_or_nothing(project) as write:
        definition = _renamed(_read(project / asl_file(source)), name, source)
        facts = _with_facts(_read(project / FACTS), name, source)
        template = _with_policy(_read(project / TEMPLATE), name, source)
        write(asl_file(name), definition)
        for file in sorted((project / f"tests/policies/{stem(source)}").glob("*.py")):
            copy = file.name.replace(stem(source), stem(name))
            write(f"{tests}/{copy}", _with_names(_read(file), name, source))
        write(FACTS, facts)
        if (project / DOCUMENT).exists():
            write(DOCUMENT, with_tables(_read(project / DOCUMENT), project))
        write(TEMPLATE, template)  # last, as it names the other files
        return write.files


class _Writer:
    """Writes files of the project, and remembers what was there before."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._before: dict[Path, str | None] = {}
        self._folders: list[Path] = []

    @property
    def files(self) -> list[Path]:
        return list(self._before)

    def __call__(self, file: str, text: str) -> None:
        path = self._project / file
        if not path.parent.exists():
            path.parent.mkdir()
            self._folders.append(path.parent)
        before = _read(path) if path.exists() else None
        if text != before:
            self._before[path] = before
            path.write_text(text, encoding="utf-8")

    def undo(self) -> None:
        for path, text in self._before.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.write_text(text, encoding="utf-8")
        for folder in self._folders:
            folder.rmdir()


@contextmanager
def _all_or_nothing(project: Path) -> Iterator[_Writer]:
    """Write several files, or, if one cannot be written, leave all as they were."""
    writer = _Writer(project)
    try:
        yield writer
    except BaseException as error:
        writer.undo()
        if isinstance(error, OSError):
            raise Failure(f"{error.filename}: {error.strerror}") from None
        if isinstance(error, ValueError):  # the source's ASL is broken
            raise Failure(" ".join(str(error).split())) from None
        raise


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _renamed(definition: str, name: str, source: str) -> str:
    """Let the first Comment of an ASL file begin with the new name, as its words before a colon."""
    title = name.replace("-", " ").capitalize()
    return re.sub(
        r'("Comment": ")(?:[^:"]*: )?', rf"\g<1>{title}, made from {source}: ", definition, count=1
    )


def _with_names(test: str, name: str, source: str) -> str:
    """Let the text of a test be about the new policy."""
    # At once, as a new name may contain the old one. In quotes, a name of one word is no file's.
    names = {f'"{source}"': f'"{name}"', source: name, stem(source): stem(name)}
    names[_logical_id(source)] = _logical_id(name)
    every = "|".join(rf"(?<!\w){re.escape(each)}(?!\w)" for each in names)
    return re.sub(every, lambda found: names[found[0]], test)


def _with_facts(facts: str, name: str, source: str) -> str:
    """Add a policy to the text of the facts, behind that of the source and with its facts."""
    found = re.search(rf"^\[{source}\]\n(?:.*\n)*?(?=\[(?!{source}\.)|\Z)", facts, re.MULTILINE)
    if not found:
        raise Failure(f"{FACTS} is not as expected: there is no [{source}].")
    section = found.group()
    copy = section.rstrip().replace(f"[{source}", f"[{name}")
    for field, text in {
        "promise": f"As `{source}`, from which it was made.",
        "use": "Say here what it is for.",
    }.items():
        copy = re.sub(
            rf'^{field} = """\n(?:.*\n)*?"""',
            f'{field} = """\n{text}\n"""',
            copy,
            flags=re.MULTILINE,
        )
    if "\nlike = " not in copy:
        copy = copy.replace("]\n", f']\nlike = "{source}"\n', 1)
    return facts.replace(section, f"{section.rstrip()}\n\n{copy}\n\n").rstrip() + "\n"


def _with_policy(template: str, name: str, source: str) -> str:
    """Add a policy to the template's text, each part of it behind that of the source."""
    new, old = _logical_id(name), _logical_id(source)
    for taken in (new, *(f"{new}{part}" for part in _PARTS)):
        if f"\n  {taken}:" in template:
            raise Failure(f"The template has a {taken} already: choose another name.")
    title = f"{_HEADING}The policy {source}: "
    before, _, rest = template.partition(title)
    resources, end, after = rest.partition(_HEADING)
    entries, lines = _entries(source), [line.strip() for line in template.splitlines()]
    missing = [each for each in entries if each not in lines]
    own = [f"  {old}{part}:" for part in _PARTS[:-1]]
    missing += [each.strip() for each in own if not end or f"\n{each}\n" not in resources]
    if missing:
        raise Failure(f"{TEMPLATE} is not as expected: there is no {missing[0]!r}.")
    copy = _without_anchors(resources.partition("\n")[2])
    copy = copy.replace(asl_file(source), asl_file(name))
    copy = copy.replace(f"PolicyName: {old}\n", f"PolicyName: {new}\n")
    for condition in ("Has", "Gradual"):
        copy = copy.replace(f"Condition: {condition}{old}\n", f"Condition: {condition}{new}\n")
    for part in _PARTS:
        copy = copy.replace(f"{old}{part}", f"{new}{part}")
    ruler = f"{_HEADING}The policy {name}: {asl_file(name)} ".ljust(_RULER, "-")
    text = f"{before}{title}{resources}{ruler}\n{copy}{end}{after}"

    copies = dict(zip(entries, _entries(name), strict=True))
    lines = []
    for line in text.splitlines(keepends=True):
        holds = f"!Condition {old}," in line.replace("]", ",")  # for the source, and so for this
        lines.append(line.replace("!Or [", f"!Or [!Condition {new}, ") if holds else line)
        entry = line.strip()
        if entry in copies:
            lines.append(line.replace(entry, copies[entry]))
    return "".join(lines)


def _entries(policy: str) -> list[str]:
    """List the lines that the template has for a policy beside its resources."""
    own = _logical_id(policy)
    return [
        f"- {policy}",  # a value of the parameter Policy
        f"{own}: !Equals [!Ref Policy, {policy}]",
        f'- !If [{own}, !Ref {own}StateMachine, ""]',  # the rule's target
        f'- !If [{own}, !Ref {own}Alias, ""]',
        f"Has{own}: !Or [!Equals [!Ref Policy, {policy}], !Condition KeepsAll]",
        f"Gradual{own}: !And [!Condition Has{own}, !Condition IsGradual]",
        f"- !If [Has{own}, !Ref {own}StateMachine, !Ref AWS::NoValue]",  # what the rule may start
    ]


def _without_anchors(resources: str) -> str:
    """Let resources refer to the anchors that they define."""
    resources = re.sub(r"&([\w-]+) \{[^{}]*\}", r"*\1", resources)
    lines: list[str] = []
    depth: float = inf  # of the anchor whose value is left out
    for line in resources.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent > depth:
            continue
        start, defines, anchor = line.partition("&")
        depth = indent if defines else inf
        lines.append(f"{start}*{anchor.split()[0]}\n" if defines else line)
    return "".join(lines)


def _logical_id(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
