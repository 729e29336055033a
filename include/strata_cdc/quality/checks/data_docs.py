"""Names and values of others in the Data Docs: text, whatever is in them.

Great Expectations writes names and values into pages without escaping them, partly as HTML, as Markdown or as a
template (1.24, render/view). So it gets harmless letters instead of what means something there, one for one, and
the finished pages get the characters back, as HTML writes them in a text.
Not here: running the suites (`suite.py`).
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

# Data Docs that need no other host: Great Expectations' pages load styles, scripts and pictures from eight of them
# (1.24, `js_script_imports.j2`, `page.j2`), which also learn when somebody looks at which run. All of that goes, and
# each page gets a style and a script of ours inside. They do not lie beside the pages: Airflow's web server gives
# these in a sandbox (`airflow/plugins/data_docs.py`), from which a browser sends no cookies for other files.
_FOLDER = Path(__file__).with_name("pages")
_ELSEWHERE = r"""\b(?:src|href)\s*=\s*["']?(?:https?:)?//"""
_LOADED = re.compile(
    rf"<script\b[^>]*{_ELSEWHERE}[^>]*>.*?</script\s*>|<(?:link|img)\b[^>]*{_ELSEWHERE}[^>]*>",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = re.compile(r"</head\s*>", re.IGNORECASE)


def without_other_hosts(page: str) -> str:
    """A page that loads nothing from elsewhere; its links lead where they led."""
    return _HEAD.sub(lambda match: _own() + match.group(), _LOADED.sub("", page), count=1)


@cache
def _own() -> str:
    style, script = ((_FOLDER / name).read_text() for name in ("docs.css", "docs.js"))
    return f"<style>\n{style}</style>\n<script>\n{script}</script>\n"


_MEANS_SOMETHING = "<>&\"'`$[]{}*~|\\#!^"
_LETTERS = 0x10FE00
"""Of the last private plane: no letter that anybody uses."""
_HIDE = {ord(character): chr(_LETTERS + ord(character)) for character in _MEANS_SOMETHING}
_SHOW = {_LETTERS + ord(character): f"&#{ord(character)};" for character in _MEANS_SOMETHING}
_ODD = re.compile(r"[^A-Za-z0-9 ,.=_+-]|\.(?![A-Za-z0-9])|(?<![A-Za-z0-9])\.")
"""Great Expectations makes a folder of what is before a dot."""
_NAME_CHARACTERS = 150
"""A name becomes that of a folder and of a page."""


def page_name(text: str) -> str:
    """A name for a suite, which becomes part of paths and links; different texts have different names."""
    plain = _ODD.sub("_", text)
    if plain == text and len(text) <= _NAME_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[:_NAME_CHARACTERS]} {digest}"


def hide(stored: str) -> str:
    """What Great Expectations has stored (JSON), with harmless letters in all texts and names of fields."""
    return json.dumps(_hidden(json.loads(stored)))


def show(page: str) -> str:
    """A page that was made of it, with the characters as HTML writes them in a text."""
    return page.translate(_SHOW)


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_HIDE)
    if isinstance(value, list):
        return [_hidden(item) for item in value]
    if isinstance(value, dict):
        return {_hidden(name): _hidden(item) for name, item in value.items()}
    return value
