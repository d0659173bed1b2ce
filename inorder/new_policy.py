"""A new policy, made from another one: its ASL, its facts, its lines of the template, its tests.

The template and the facts are edited as text, because their libraries would drop comments. Each
line of the source gets a copy below it: a value of the parameter Policy, a state machine, a line of
what EventsRole may start and, for some policies, a line of a condition.
"""

import re
import shutil
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from inorder import PROJECT
from inorder.errors import Failure
from inorder.model.policies import DOCUMENT, FACTS, asl_file, names, own_file, stem, with_tables
from inorder.wording import in_one_line

TEMPLATE, PERMISSIONS = "template.yaml", "docs/permissions.md"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST_NAME = 40


def create(name: str, source: str, project: Path = PROJECT) -> dict[str, bool]:
    """Make a policy that does what another one does, to be edited; or write nothing and fail.

    Gives the files that it has written, and whether each was there before.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise Failure(
            f"{name!r} is no name for a policy: lower-case words with hyphens between them, "
            f"{_LONGEST_NAME} characters at most, such as my-policy."
        )
    offered = names(project)
    if name in offered:
        raise Failure(f"There is a policy {name} already.")
    if source not in offered:
        raise Failure(f"There is no policy {source!r}: {', '.join(offered)}.")
    tests, file = f"tests/policies/{stem(name)}", own_file(name)
    for taken in (file, tests, f"{tests}.py"):
        if (project / taken).exists():
            raise Failure(f"{taken} exists already.")
    try:
        texts = {
            file: _renamed(_read(project / asl_file(source, project)), name, source),
            FACTS: _with_facts(_read(project / FACTS), name, source),
            TEMPLATE: _with_policy(_read(project / TEMPLATE), name, source, project),
            PERMISSIONS: _with_machine(_read(project / PERMISSIONS), name, source),
        }
        for test in (project / f"tests/policies/{stem(source)}").glob("*.py"):
            copy = test.name.replace(stem(source), stem(name))
            texts[f"{tests}/{copy}"] = _with_names(_read(test), name, source)
        return _write(texts, project)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:  # the source's ASL is broken
        raise Failure(in_one_line(error)) from None


def longest_stack_name(project: Path = PROJECT) -> int:
    """Tell how long a stack's name may be: its machines are ``STACK_POLICY``, in 80 characters.

    https://docs.aws.amazon.com/step-functions/latest/apireference/API_CreateStateMachine.html
    """
    return 80 - len("_") - max(map(len, names(project)))


def _write(texts: dict[str, str], project: Path) -> dict[str, bool]:
    """Write files, and the documentation's tables, which are made before anything is written."""
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(project / "statemachine", copy / "statemachine")
        for name, text in texts.items():
            if name.startswith("statemachine/"):
                (copy / name).write_text(text, encoding="utf-8")
        texts[DOCUMENT] = with_tables(_read(project / DOCUMENT), copy)
    was_there = {name: (project / name).exists() for name in texts}
    for name, text in texts.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    return was_there


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
    copies = {f'"{source}"': f'"{name}"', source: name, stem(source): stem(name)}
    copies[_logical_id(source)] = _logical_id(name)
    every = "|".join(rf"(?<!\w){re.escape(text)}(?!\w)" for text in copies)
    return re.sub(every, lambda match: copies[match[0]], test)


def _with_facts(facts: str, name: str, source: str) -> str:
    """Add a policy's section below the source's; it has an ASL file of its own."""
    first, *others = facts.partition(f"[{source}]\n")[2].split("\n[")
    tables = takewhile(lambda table: table.startswith(f"{source}."), others)
    section = "\n[".join([first, *tables]).rstrip() + "\n"
    copy = re.sub(r"^file = .*\n", "", section.replace(f"[{source}.", f"[{name}."))
    if "\nlike = " not in f"\n{copy}":
        copy = f'like = "{source}"\n{copy}'
    original = f"[{source}]\n{section}"
    return _replaced(facts, original, f"{original}\n[{name}]\n{copy}", FACTS)


def _with_policy(template: str, name: str, source: str, project: Path) -> str:
    """Add a policy's lines to the template."""
    new, old = _logical_id(name), _logical_id(source)
    if f"\n  {new}StateMachine:\n" in template:
        raise Failure(f"{TEMPLATE} has a {new}StateMachine already: choose another name.")
    rest = template.partition(f"\n  {old}StateMachine:\n")[2]
    machine = f"\n  {old}StateMachine:\n" + rest.partition("\n\n")[0] + "\n"
    copy = _replaced(machine, f"  {old}StateMachine:", f"  {new}StateMachine:")
    copy = _replaced(copy, f"}}_{source}\n", f"}}_{name}\n")
    copy = _replaced(copy, f" {asl_file(source, project)}\n", f" {own_file(name)}\n")
    template = _replaced(template, machine, machine + copy)
    for line, of_source, of_copy in (
        ("      - {}\n", source, name),  # of AllowedValues
        ("                  - !Ref {}StateMachine\n", old, new),  # of what EventsRole may start
    ):
        original = f"\n{line.format(of_source)}"
        template = _replaced(template, original, original + line.format(of_copy))
    return "".join(_with_condition(template, name, source))


def _with_machine(page: str, name: str, source: str) -> str:
    """Add a policy's state machine to what the rule may start."""
    new, old = (f"`{_logical_id(policy)}StateMachine`" for policy in (name, source))
    return _replaced(page, old, f"{old}, {new}", PERMISSIONS)


def _replaced(text: str, original: str, other: str, file: str = TEMPLATE) -> str:
    """Replace what must be in a text once."""
    if text.count(original) != 1:
        first = original.strip().partition("\n")[0]
        raise Failure(f"{file} is not as expected: {first!r} must be there once.")
    return text.replace(original, other)


def _with_condition(template: str, name: str, source: str) -> Iterator[str]:
    """Let what holds for the source hold for the new policy; a condition of one becomes an Or."""
    one, other = (f"!Equals [!Ref Policy, {policy}]" for policy in (source, name))
    for line in template.splitlines(keepends=True):
        before, condition, after = line.partition(one)
        if not condition:
            yield line
        elif before.endswith("- "):
            yield f"{line}{before}{other}\n"
        else:
            yield f"{before}!Or{after}    - {one}\n    - {other}\n"


def _logical_id(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))
