"""A TOML file read against a Struct: every value with its type, every mistake with its line.
Not here: which settings there are (`settings.py`)."""

from __future__ import annotations

import tomllib
from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError, structs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Path = tuple[str, ...]
    """The keys that lead to a value."""


class Mistakes:
    """What is wrong with a file, each thing with the keys that lead to it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[Path, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: Path, what: str) -> None:
        """Notes a mistake; never with the value, which may be a password in the wrong place."""
        self._found.append((path, what))

    def __str__(self) -> str:
        """All of them in the order of their lines; what is missing has the line of the table that it belongs to."""
        lines = key_lines(self._text)
        placed = sorted(((_line(lines, path), what) for path, what in self._found), key=lambda one: one[0])
        told = [f"line {line}: {what}" if line else what for line, what in placed]
        return told[0] if len(told) == 1 else "\n  ".join([f"the settings have {len(told)} mistakes:", *told])


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


def read_fields(kind: type[Struct], given: dict[str, Any], path: Path, mistakes: Mistakes) -> dict[str, Any]:
    """The values of a table that are as the Struct's fields want them; everything else is a mistake."""
    fields = {field.name: field for field in structs.fields(kind)}
    good = {}
    for key, value in given.items():
        where = (*path, key)
        if key not in fields:
            mistakes.add(where, f"{'.'.join(where)} is not a setting{_nearest(key, fields)}")
            continue
        try:
            good[key] = msgspec.convert(value, fields[key].type, builtin_types=(datetime,))
        except ValidationError:
            mistakes.add(where, f"{'.'.join(where)} is not {_described(fields[key].type)}")
    for key, field in fields.items():
        if key not in given and field.default is field.default_factory is NODEFAULT:
            mistakes.add((*path, key), f"{'.'.join((*path, key))} is missing: {_described(field.type)}")
    return good


def _described(kind: Any) -> str:
    """What the type of a field, or of a member of its union, says of the values that it takes."""
    parts = (part for one in (kind, *get_args(kind)) for part in getattr(one, "__metadata__", ()))
    return next(part.description for part in parts if isinstance(part, Meta) and part.description)


def _nearest(key: str, known: Iterable[str]) -> str:
    # Imported here: nobody pays for it whose file is right.
    import difflib  # noqa: PLC0415  see above

    near = difflib.get_close_matches(key, known, n=1)
    return (f": do you mean {near[0]}?" if near else "") + f" (there are: {', '.join(known)})"


def _line(lines: dict[Path, int], path: Path) -> int:
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _paths(values: Any, path: Path = ()) -> Iterator[Path]:
    """The keys of all tables in some values, each with those that lead to it."""
    if isinstance(values, list):
        for one in values:
            yield from _paths(one, path)
    if isinstance(values, dict):
        for key, value in values.items():
            yield (*path, key)
            yield from _paths(value, (*path, key))
