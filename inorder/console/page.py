"""The page: its modules have names, which are found through an import map."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
IMPORT_MAP = '<script type="importmap">'
VENDORED = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/preact-hooks.js",
    "htm": "vendor/htm.js",
    "@dagrejs/dagre": "vendor/dagre.js",
}


def modules() -> dict[str, str]:
    """Give the file of each module, relative to the folder of the page, by its specifier."""
    return VENDORED | {f"inorder/{file.stem}": file.name for file in FOLDER.glob("*.js")}


def index(addresses: Mapping[str, str]) -> str:
    """Give the page with a map of specifiers to addresses."""
    text = json.dumps({"imports": dict(addresses)})
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    return html.replace(IMPORT_MAP, f"{IMPORT_MAP}{text}")


def content_security_policy(page: str, **sources: str) -> str:
    """Allow the scripts and styles that are in a page itself, and else only what is named.

    Further sources are named by directive: ``script_src="'self'"``.
    """
    # A block of data is no script, and needs no hash.
    blocks = r'<script(?: type="(?:importmap|module)")?>(.*?)</script>'
    scripts = re.findall(blocks, page, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    allowed = {
        "default-src": "'none'",
        "script-src": " ".join([*map(_hash, scripts), sources.get("script_src", "")]),
        "style-src": " ".join([*map(_hash, styles), sources.get("style_src", "")]),
        "img-src": "data:",
        "connect-src": sources.get("connect_src", "'none'"),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value.strip()}" for name, value in allowed.items() if value.strip())


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
