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
from typing import Any

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
