"""What `sam build` makes: it is small, complete, and fits the runtime of Lambda.

The runtime is Python 3.13 on arm64, on Amazon Linux 2023 with glibc 2.34. This machine may be
neither, so the tests read what the packages need.
"""

import ast
import os
import re
import sys
from pathlib import Path

import pytest

from inorder import PROJECT
from tests.stack.conftest import ran

GLIBC = (2, 34)
AARCH64 = 183  # of an ELF file's machine: https://refspecs.linuxfoundation.org/elf/
IN_THE_RUNTIME = {"boto3", "botocore"}
TEMPLATES = [
    *("template.yaml", "examples/work_function/template.yaml", "examples/long_job/template.yaml")
]
MEGABYTES = {
    "InvertImageFunction-Shared": 40,  # of all with one CodeUri, runtime and architecture
    "Function": 1,
    "StartJobFunction-Shared": 1,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "SAM_CLI_TELEMETRY": "0"}
    command = [sys.executable, "-m", "samcli", "build", "--beta-features"]
    command += ["--cache-dir", str(folder / "cache"), "--build-dir", str(folder / "out")]
    built = folder / "built"
    built.mkdir()
    for template in TEMPLATES:
        ran(*command, "--template", template, variables=variables)
        for function in (folder / "out").glob("*/"):
            function.rename(built / function.name)
    return built


def test_functions_are_small_and_contain_only_what_lambda_needs(built: Path) -> None:
    assert {path.name for path in built.iterdir()} == set(MEGABYTES)
    for function, megabytes in MEGABYTES.items():
        files = [path for path in (built / function).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < megabytes * 1_000_000
        top = {path.name for path in (built / function).iterdir()}
        assert not top & {"tests", "events", "boto3", "botocore", "pip", ".venv", "__pycache__"}


@pytest.mark.parametrize("function", MEGABYTES)
def test_a_functions_libraries_fit_the_runtime(built: Path, function: str) -> None:
    for library in (built / function).rglob("*.so*"):
        assert ".cpython-" not in library.name or ".cpython-313-aarch64-" in library.name
        content = library.read_bytes()
        assert content.startswith(b"\x7fELF")
        assert int.from_bytes(content[18:20], "little") == AARCH64, library
        needed = re.findall(rb"GLIBC_(\d+)\.(\d+)", content)
        assert all((int(major), int(minor)) <= GLIBC for major, minor in needed), library


@pytest.mark.parametrize("function", MEGABYTES)
def test_a_function_contains_everything_that_it_imports(built: Path, function: str) -> None:
    there = {path.name.removesuffix(".py") for path in (built / function).iterdir()}
    there |= set(sys.stdlib_module_names) | IN_THE_RUNTIME
    own = {path.parent.name for path in PROJECT.glob("functions/*/*.py")}
    files = (file for name in (".", *own) for file in (built / function / name).glob("*.py"))
    modules = [file for file in files if not file.name.startswith("test_")]
    assert modules
    for module in modules:
        for node in ast.parse(module.read_text()).body:  # those for type checkers are nested
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert {name.split(".")[0] for name in names} <= there, module
