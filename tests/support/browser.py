"""The browser of the page's tests: one that is there, or else an installed or a downloaded one.

    python -m tests.support.browser TESTS

This gets one. If none can be had, it prints a sentence: that TESTS did not run, and why.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Without these, Chromium asks hosts of Google's at each start. As root, it has no sandbox.
ARGUMENTS = [
    *("--no-sandbox", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
# Another apt may run, such as the updates of a new machine.
APT = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120"]
DOWNLOAD = [sys.executable, "-m", "playwright", "install", "--only-shell"]


class NoBrowserError(Exception):
    """No browser starts; the text says why, without a full stop."""


def launch(playwright: Playwright) -> Browser:
    """Start the first browser that does start, playwright's own one last.

    Raises
    ------
    NoBrowserError
        None starts. The variable ``CHROMIUM`` names the only one to try.
    """
    named = os.environ.get("CHROMIUM")
    for path in [named] if named else [*filter(None, map(shutil.which, CHROMIUM)), None]:
        try:
            return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        except Error:  # on Ubuntu, chromium-browser may only be a hint to install a snap
            continue
    if named:
        raise NoBrowserError(f"CHROMIUM={named} does not start")
    raise NoBrowserError("no browser starts here, and `python -m tests.support.browser` gets one")


def starts() -> bool:
    """Tell whether there is a browser."""
    try:
        with sync_playwright() as playwright:
            launch(playwright).close()
    except NoBrowserError:
        if os.environ.get("CHROMIUM"):
            raise
        return False
    return True


def get() -> None:
    """Install a browser unless there is one: by apt-get, or else by playwright.

    Raises
    ------
    NoBrowserError
        None can be had.
    """
    if starts():
        return
    why = ["there is no browser"]
    is_debian, may_install = bool(shutil.which(APT[0])), os.geteuid() == 0
    ways = [[[*DOWNLOAD, "chromium"]]]
    if is_debian and may_install:
        # Also what a downloaded browser needs of the system.
        ways = [[[*APT, "update"], [*APT, "install", "--yes", "chromium"]]]
        ways.append([[*DOWNLOAD, "--with-deps", "chromium"]])
    elif is_debian:
        why.append("this user may not install one with apt-get")
    for commands in ways:
        print(f"Getting a browser with {_name(commands)} ...", file=sys.stderr)
        error = next(filter(None, map(_run, commands)), "what it brought does not start")
        if starts():
            return
        why.append(f"{_name(commands)} failed ({error})")
    raise NoBrowserError(f"{', '.join(why[:-1])}, and {why[-1]}")


def _name(commands: list[list[str]]) -> str:
    return "apt-get" if commands[0][0] == APT[0] else "playwright install"


def _run(command: list[str]) -> str:
    """Run a command, and give its error, or nothing."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(  # noqa: S603 - one of the above
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    errors = re.findall(r"^E(?:rror)?: (.*)$", done.stderr + done.stdout, re.MULTILINE)
    return next(iter(errors), f"exit code {done.returncode}")


if __name__ == "__main__":
    try:
        get()
    except NoBrowserError as none:
        print(f"{sys.argv[1]} did not run: {none}.")
