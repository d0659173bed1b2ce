"""What the project uses of moto and ministack beside their interfaces is there, and is little."""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from importlib.metadata import version

import moto.core.utils
import pytest
from ministack.services import stepfunctions

from inorder import PROJECT, ministack_parts
from tests.support import moto_parts

MODULES = {
    "inorder/ministack_parts.py",
    "tests/support/moto_parts.py",
    "tests/unit/test_private_parts.py",
}
INTERFACES = r"from moto import mock_aws|from ministack\.app import main"


def moved() -> Iterator[str]:
    """Say of each part that is not as it was where it is used, and for what."""
    for package, module in (("ministack", ministack_parts), ("moto", moto_parts)):
        for name, (parameters, purpose) in module.PARTS.items():
            if wrong := wrong_with(f"{package}.{name}", parameters):
                part = f"{package} {version(package)}: {name} {wrong}"
                yield f"{part}. {module.__name__} needs it to {purpose}."


def wrong_with(name: str, parameters: str | None) -> str:
    try:
        thing = pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return "is not there"
    has = None if parameters is None else ", ".join(inspect.signature(thing).parameters)
    return "" if has == parameters else f"has the parameters ({has}), not ({parameters})"


def test_at_most_25_private_parts_are_used_and_none_moved() -> None:
    assert len(ministack_parts.PARTS | moto_parts.PARTS) <= 25
    assert list(moved()) == []


def test_a_part_that_an_update_moved_or_changed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(stepfunctions, "_invoke_resource")
    monkeypatch.setattr(moto.core.utils, "utcnow", lambda zone: zone)
    gone, changed = moved()
    assert re.fullmatch(
        r"ministack [\d.]+: services.stepfunctions._invoke_resource is not there."
        r" inorder.ministack_parts needs it to let a state's call fail, .*\.",
        gone,
    )
    assert "core.utils.utcnow has the parameters (zone), not (). tests.support.moto" in changed


def test_no_other_module_touches_them() -> None:
    for file in PROJECT.glob("*/**/*.py"):
        name = str(file.relative_to(PROJECT))
        if name.startswith((".", "out/")) or name in MODULES:
            continue
        imports = re.findall(r"^ *(?:from|import) (?:moto|ministack)\b.*", file.read_text(), re.M)
        assert [line for line in imports if not re.fullmatch(INTERFACES, line.strip())] == [], name
