"""The browser of the page's tests: one that is there, or else an installed or a downloaded one.

    python -m tests.support.browser TESTS

This gets one. If none can be had, it prints a sentence: that TESTS did not run, and why.
"""

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
APT = "apt-get -qq -o DPkg::Lock::Timeout=120"
BY_APT = (f"{APT} update", f"{APT} install --yes chromium")
DOWNLOAD = f"{sys.executable} -m playwright install --only-shell"


def launch(playwright: Playwright) -> Browser:
    """Start the first browser that does start, playwright's own one last.

    Raises
    ------
    RuntimeError
        None starts. The variable ``CHROMIUM`` names the only one to try.
    """
    named = os.environ.get("CHROMIUM")
    for path in [named] if named else [*filter(None, map(shutil.which, CHROMIUM)), None]:
        try:
            return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        except Error:  # on Ubuntu, chromium-browser may only be a hint to install a snap
            continue
    raise RuntimeError(f"CHROMIUM={named} does not start" if named else "no browser starts here")


def starts() -> str:
    """Tell why there is no browser, or ""."""
    try:
        with sync_playwright() as playwright:
            launch(playwright).close()
    except RuntimeError as none:
        return str(none)
    return ""


def get() -> str:
    """Install a browser unless there is one, by apt-get if this user may; tell why there is none.

    The last of these commands also gets what a downloaded browser needs of the system.
    """
    is_root = shutil.which("apt-get") and os.geteuid() == 0
    ways = (*BY_APT, f"{DOWNLOAD} --with-deps chromium") if is_root else (f"{DOWNLOAD} chromium",)
    missing = starts()
    for command in ways if missing and "CHROMIUM" not in os.environ else ():
        print(f"Getting a browser: {command} ...", file=sys.stderr)
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(command.split(), env=environment, stdout=sys.stderr, check=False)  # noqa: S603
        if not (missing := starts()):
            break
    return missing


if __name__ == "__main__":
    if missing := get():
        print(f"{sys.argv[1]} did not run: {missing}.")
