"""HTML from templates. Everything that is put into one is escaped: names, statements and labels come from binlogs.
Not here: what a page says (`overview.py`, `table_page.py`, ...)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strata.counted import counted
from strata.schema.answers.lines import written_time

FOLDER: Final = Path(__file__).parent
_AGES: Final = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def make_environment() -> Environment:
    """The templates with what they may call; an undefined name in one is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"time": _time, "ago": _ago, "number": _number}
    made.globals |= {"counted": counted, "query": query}
    return made


def _time(micros: int) -> Markup:
    """To the second; what a pointer that rests on it shows is exact."""
    text = written_time(micros)
    if text is None:
        return Markup("from the start")
    return Markup('<time title="{} UTC">{}</time>').format(text, text.partition(".")[0])


def _ago(micros: int, now: int) -> str:
    """How long before now, in the largest unit that fits."""
    seconds = max(now - micros, 0) // 1_000_000
    for length, unit in _AGES:
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now"


def _number(value: int) -> str:
    return f"{value:,}"


def query(**values: Any) -> str:
    """A query string of what is given."""
    given = {name.removesuffix("_"): value for name, value in values.items() if value not in {None, ""}}
    return f"?{urlencode(given)}" if given else "?"
