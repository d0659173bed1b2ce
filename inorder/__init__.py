"""The commands: for a deployed stack, for those who write a policy, and for a local AWS."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
IS_CHECKOUT = (_PACKAGE.parent / "template.yaml").is_file()
# Where the files are that commands read. The wheel has some of them; pyproject.toml says which.
PROJECT = _PACKAGE.parent if IS_CHECKOUT else _PACKAGE / "project"
