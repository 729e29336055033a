"""Tables of keys and values read against a Struct: every value with its type, every mistake at once, with its line.
Not here: files (`config/toml_file.py`, `quality/checks/own_file.py`), which fields there are (their Structs)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError, structs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Path = tuple[str | int, ...]
    """The keys that lead to a value; numbers, from 0, in a list."""


class Mistakes:
    """What is wrong with a file, each thing with the keys that lead to it."""

    def __init__(self, title: str, lines: Callable[[], Mapping[Path, int]]) -> None:
        """Nothing yet.

        Args:
            title: Stands in front of how many there are, if there are several.
            lines: Finds the line, from 1, of each key; called if there are mistakes.
        """
        self._title = title
        self._lines = lines
        self._found: list[tuple[Path, str]] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, path: Path, what: str) -> None:
        """Notes a mistake; never with the value, which may be a password in the wrong place."""
        self._found.append((path, what))

    def __str__(self) -> str:
        """All of them in the order of their lines; what is missing has the line of the table that it belongs to."""
        lines = self._lines()
        placed = sorted(((line_of(lines, path), what) for path, what in self._found), key=lambda one: one[0])
        mistakes = [f"line {line}: {what}" if line else what for line, what in placed]
        return (
            mistakes[0] if len(mistakes) == 1 else "\n  ".join([f"{self._title} {len(mistakes)} mistakes:", *mistakes])
        )


def read_fields(
    kind: type[Struct], given: Mapping[str, Any], path: Path, mistakes: Mistakes, *, noun: str = "field"
) -> dict[str, Any]:
    """The values of a table that are as the Struct's fields want them; everything else is a mistake.

    Args:
        kind: The Struct; each field's type describes itself in words (`Meta`).
        given: The table.
        path: The keys that lead to it.
        mistakes: Takes what is wrong.
        noun: What a key is called.
    """
    fields = {field.encode_name: field for field in structs.fields(kind)}
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


def path_text(path: Path) -> str:
    """As people write the way to a value: `sources.shop.tables`, `expectations[2].type`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def nearest(key: str, known: Iterable[str]) -> str:
    """What may be meant by a name that is none, and which there are, to stand behind the words that refuse it."""
    names = list(known)
    near = near_names(key, names)
    return (f": do you mean {near[0]}?" if near else "") + f" (there are: {', '.join(names)})"


def near_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The names most like one that is none, the best first; case does not count."""
    # Imported here: nobody pays for it whose names are right.
    import difflib  # noqa: PLC0415  see above

    by_lower: dict[str, str] = {}
    for one in known:
        by_lower.setdefault(one.lower(), one)
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, n=most)]


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of a value, or of the table that it would belong to; 0 if nobody knows."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 0)


def _described(kind: Any) -> str:
    """What the type of a field, or of a member of its union, says of the values that it takes."""
    parts = (part for one in (kind, *get_args(kind)) for part in getattr(one, "__metadata__", ()))
    return next(part.description for part in parts if isinstance(part, Meta) and part.description)
