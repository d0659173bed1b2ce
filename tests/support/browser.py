"""The browser of the page's tests: one that is there, or else an installed or a downloaded one.

    python -m tests.support.browser TESTS

This gets one. If none can be had, it prints a sentence: that TESTS did not run, and why.
"""

from __future__ import annotations

import os
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
APT_UPDATE, APT_INSTALL = [*APT, "update"], [*APT, "install", "--yes", "chromium"]
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
    """Install a browser unless there is one: by apt-get if this user may, or else by playwright.

    Raises
    ------
    NoBrowserError
        None can be had. The installers have printed why.
    """
    if starts():
        return
    ways = [[*DOWNLOAD, "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        # The last one also gets what a downloaded browser needs of the system.
        ways = [APT_UPDATE, APT_INSTALL, [*DOWNLOAD, "--with-deps", "chromium"]]
    for command in ways:
        print(f"Getting a browser: {' '.join(command)} ...", file=sys.stderr)
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command, env=environment, stdout=sys.stderr, check=False)  # noqa: S603
        if starts():
            return
    raise NoBrowserError("there is no browser, and none can be installed")


if __name__ == "__main__":
    try:
        get()
    except NoBrowserError as none:
        print(f"{sys.argv[1]} did not run: {none}.")
