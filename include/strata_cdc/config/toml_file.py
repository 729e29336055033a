"""The lines of a TOML file.
Not here: reading its values (`strata.fields`), which settings there are (`settings.py`)."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.fields import Path


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, on which each key of a valid TOML file is first named.

    A statement of TOML may go over several lines, and no beginning of one that ends with a line is valid. So the lines
    are joined until they are, and the parser itself says which keys they hold.
    """
    found: dict[Path, int] = {}
    table: Path = ()
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        statement += line + "\n"
        try:
            values = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        paths = list(_paths(values))
        if statement.lstrip().startswith("["):
            table = max(paths, key=len)
        else:
            paths = [(*table, *path) for path in paths]
        for path in paths:
            found.setdefault(path, first)
        statement, first = "", number + 1
    return found


def _paths(values: Any, path: Path = ()) -> Iterator[Path]:
    """The keys of all tables in some values, each with those that lead to it."""
    if isinstance(values, list):
        for one in values:
            yield from _paths(one, path)
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key)
            yield from _paths(value, (*path, key))
