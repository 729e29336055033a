"""Checks tables of keys and values against a Struct: the type of every value; all mistakes are reported at once, with
lines.
Not here: files (`config/toml_file.py`, `quality/checks/own_file.py`), the fields (their Structs)."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError, structs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Path = tuple[str | int, ...]
    """The keys that lead to a value; numbers, from 0, in a list."""


class Mistakes:
    """The mistakes in a file, each with the keys that lead to it."""

    def __init__(self, title: str, lines: Callable[[], Mapping[Path, int]]) -> None:
        """Begins without mistakes.

        Args:
            title: Comes before the number of mistakes, if there are several.
            lines: Returns the line, from 1, of each key; called only if there are mistakes.
        """
        self._title = title
        self._lines = lines
        self._found: list[tuple[Path, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: Path, what: str) -> None:
        """Adds a mistake. The text never has the value, which may be a password at the wrong position."""
        self._found.append((path, what))

    def __str__(self) -> str:
        """All mistakes in the order of their lines; a missing key has the line of its table."""
        lines = self._lines()
        placed = sorted(
            ((line_of(lines, path), what) for path, what in self._found), key=lambda placed_text: placed_text[0]
        )
        mistakes = [f"line {line}: {what}" if line else what for line, what in placed]
        return (
            mistakes[0] if len(mistakes) == 1 else "\n  ".join([f"{self._title} {len(mistakes)} mistakes:", *mistakes])
        )


def read_fields(
    kind: type[Struct], given: Mapping[str, Any], path: Path, mistakes: Mistakes, *, noun: str = "field"
) -> dict[str, Any]:
    """The values of a table that fit the Struct's fields; everything else is a mistake.

    Args:
        kind: The Struct; each field's type describes itself in words (`Meta`).
        given: The table.
        path: The keys that lead to it.
        mistakes: Gets the mistakes.
        noun: The word for a key.
    """
    fields = _fields(kind)
    good = {}
    for key, value in given.items():
        where = (*path, key)
        if key not in fields:
            mistakes.add(where, f"{path_text(where)} is not a {noun}{nearest(key, fields)}")
            continue
        try:
            good[key] = msgspec.convert(value, fields[key].type, builtin_types=(datetime,))
        except ValidationError:
            mistakes.add(where, f"{path_text(where)} is not {_described(fields[key].type)}")
    for key, field in fields.items():
        if key not in given and field.default is field.default_factory is NODEFAULT:
            mistakes.add((*path, key), f"{path_text((*path, key))} is missing: {_described(field.type)}")
    return good


@cache
def _fields(kind: type[Struct]) -> dict[str, structs.FieldInfo]:
    """By their names in files; finding out their types takes most of the time in which settings are read."""
    return {field.encode_name: field for field in structs.fields(kind)}


def path_text(path: Path) -> str:
    """The path to a value as people write it: `sources.shop.tables`, `expectations[2].type`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def nearest(key: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name, and the list of known names, as the end of an error message."""
    names = list(known)
    near = near_names(key, names)
    return (f": do you mean {near[0]}?" if near else "") + f" (there are: {', '.join(names)})"


def near_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are most similar to an unknown name, the best first; case does not count."""
    # Imported here, so that only files with wrong names pay for the import.
    import difflib  # noqa: PLC0415  see above

    by_lower: dict[str, str] = {}
    for known_name in known:
        by_lower.setdefault(known_name.lower(), known_name)
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=most)]


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a value, or of the table to which it would belong; 0 if it is not known."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _described(kind: Any) -> str:
    """The description of the allowed values in the type of a field, or of a member of its union."""
    parts = (part for part_of in (kind, *get_args(kind)) for part in getattr(part_of, "__metadata__", ()))
    return next(part.description for part in parts if isinstance(part, Meta) and part.description)
