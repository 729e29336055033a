"""Data Docs that need no other host: Great Expectations' pages load styles, scripts and pictures from eight of them
(1.24, `js_script_imports.j2`, `page.j2`), which also learn when somebody looks at which run.

All of that goes, and each page gets a style and a script of ours inside. They do not lie beside the pages: Airflow's
web server gives these in a sandbox (`airflow/plugins/data_docs.py`), from which a browser sends no cookies for other
files.
Not here: names and values in the pages (`data_docs.py`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

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
