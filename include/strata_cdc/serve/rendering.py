"""HTML from templates. Everything that is put into one is escaped: names, statements and labels come from binlogs.
Not here: what a page shows (`overview.py`, `table_page.py`, ...)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from strata_cdc.clock import exact_text, from_micros
from strata_cdc.counted import counted
from strata_cdc.schema.answers.lines import written_time
from strata_cdc.schema.history.shell_words import pattern_word, row_words, table_word, word

FOLDER: Final = Path(__file__).parent
_AGES: Final = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_COMMAND: Final = re.compile(r"`((?:&#34;&#39;&#34;|&#39;.*?&#39;|[^`])+)`", re.DOTALL)
"""Of escaped text: a name that the shell needs in quotes may have backticks."""
_SIZES: Final = ("bytes", "kB", "MB", "GB", "TB")


def make_environment() -> Environment:
    """The templates with what they may call; an undefined name in one is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"time": _time, "ago": _ago, "number": _number, "iso": _iso, "span": _span, "size": _size}
    made.filters |= {
        "commands": _commands,
        "exact": exact_text,
        "pattern_word": pattern_word,
        "table_word": table_word,
        "word": word,
    }
    made.globals |= {"counted": counted, "query": query, "row_words": row_words}
    return made


def _time(micros: int) -> Markup:
    """To the second; what a pointer that rests on it shows is exact."""
    text = written_time(micros)
    if text is None:
        return Markup("from the start")
    day, _, second = text.partition(".")[0].partition(" ")
    # If there is no space, the line may end between the two.
    return Markup('<time title="{} UTC"><span>{}</span> <span>{}</span></time>').format(text, day, second)


def _ago(micros: int, now: int) -> str:
    """How long before now, in the largest unit that fits."""
    seconds = max(now - micros, 0) // 1_000_000
    for length, unit in _AGES:
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now"


def _span(seconds: float) -> Markup:
    """A span of time in its two largest units; what a pointer that rests on it shows is in seconds."""
    whole = round(abs(seconds))
    parts = []
    for length, unit in _UNITS:
        parts.append(f"{whole // length} {unit}")
        whole %= length
    first = next((at for at, part in enumerate(parts) if not part.startswith("0 ")), len(parts) - 1)
    shown = [part for part in parts[first : first + 2] if not part.startswith("0 ")] or ["0 s"]
    return Markup('<span class="span" title="{} seconds">{}{}</span>').format(
        f"{seconds:,.1f}", "-" if seconds < 0 else "", " ".join(shown)
    )


def _commands(text: str) -> Markup:
    """A message of ours with its commands, which are between backticks, as code."""
    return Markup(_COMMAND.sub(r'<code class="command">\1</code>', str(escape(text))))  # noqa: S704  escaped here


def _size(count: int) -> str:
    """Bytes in the largest unit that fits."""
    value, at = float(count), 0
    while value >= 1000 and at < len(_SIZES) - 1:
        value, at = value / 1000, at + 1
    return f"{value:,.1f} {_SIZES[at]}" if at else counted(count, "byte")


def _iso(micros: int) -> str:
    """As the command line takes a time: ISO 8601."""
    return f"{from_micros(micros):%Y-%m-%dT%H:%M:%S.%f}Z"


def _number(value: int) -> str:
    return f"{value:,}"


def query(**values: Any) -> str:
    """A query string of what is given."""
    given = {name.removesuffix("_"): value for name, value in values.items() if value not in {None, ""}}
    return f"?{urlencode(given)}" if given else "?"
