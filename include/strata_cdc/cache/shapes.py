"""What is cached, declared: shapes of queries, the tables of each, and the columns whose values make its keys.
Not here: the text of a key (`keys.py`), which rows of a stream touch which keys (`touched.py`), which columns may make
keys (`serving.py`)."""

from __future__ import annotations

import glob
import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.cache.keys import INTEGER, YEAR
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
ANY_KINDS: Final = "*"
"""Of a shape of which no table makes keys."""


class Shape(Struct, frozen=True):
    """One kind of cached object: `order` by the primary key of orders, `page` of a customer made of several tables."""

    name: str
    tables: dict[str, tuple[str, ...]]
    """By `database.table` the columns whose values are the key, in the key's order. None (`[]`): any change of that
    table invalidates all objects of the shape."""

    @property
    def digest(self) -> str:
        """The same for the same declaration."""
        plain = [[table.lower(), [column.lower() for column in columns]] for table, columns in self.tables.items()]
        return hashlib.sha256(json.dumps([self.name, sorted(plain)]).encode()).hexdigest()[:16]

    def word(self, kinds: str) -> str:
        """What reader and invalidator must both have of a shape: its declaration, and the kinds of its values."""
        return f"{self.digest}:{kinds.replace(YEAR, INTEGER)}"


class Shapes(Struct, frozen=True):
    """All shapes of one cache, and the source whose rows they are of."""

    source: str
    shapes: tuple[Shape, ...]
    lineage: str = ""
    """As the settings have it."""

    @classmethod
    def of(cls, source: str, shapes: Iterable[Shape], *, lineage: str = "") -> Shapes:
        """Of a source.

        Raises:
            Usage: A shape means nothing; all mistakes are reported.
        """
        made = cls(source, tuple(sorted(shapes, key=lambda shape: shape.name)), lineage)
        mistakes = [mistake for shape in made.shapes for mistake in _mistakes(shape)]
        names = [shape.name for shape in made.shapes]
        mistakes += [f"shape {name} is declared twice" for name in sorted({n for n in names if names.count(n) > 1})]
        if not names:
            mistakes.append("no shape is declared")
        if mistakes:
            raise Usage("; ".join(mistakes), remedy="`docs/caches.md` shows how shapes are declared.")
        return made

    @classmethod
    def read(cls, path: str | Path) -> Shapes:
        """From a TOML file: `source`, `lineage`, and `[shapes.NAME]` with `"database.table" = ["column", ...]`.

        Raises:
            Usage: The file is not there, or has another form.
        """
        try:
            plain = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise Usage(f"the shapes in {path} cannot be read: {error}", file=str(path)) from None
        unknown = sorted(set(plain) - {"source", "lineage", "shapes"})
        declared = plain.get("shapes", {})
        texts = isinstance(plain.get("source"), str) and isinstance(plain.get("lineage", ""), str)
        if unknown or not texts or not _is_declaration(declared):
            raise Usage(
                "a file of shapes has `source`, maybe `lineage`, and for each shape a table of column names"
                + (f"; it has {', '.join(unknown)}" if unknown else ""),
                file=str(path),
                remedy="`docs/caches.md` shows one.",
            )
        shapes = [
            Shape(name, {table: tuple(columns) for table, columns in tables.items()})
            for name, tables in declared.items()
        ]
        return cls.of(plain["source"], shapes, lineage=plain.get("lineage", ""))

    @property
    def history(self) -> str:
        """Names what the tokens of the cache are of."""
        return json.dumps([self.source, self.lineage])

    @property
    def digest(self) -> str:
        """The same for the same declarations."""
        return hashlib.sha256("".join(shape.digest for shape in self.shapes).encode()).hexdigest()[:16]

    def named(self, name: str) -> Shape:
        """The shape of that name.

        Raises:
            Usage: There is no such shape.
        """
        for shape in self.shapes:
            if shape.name == name:
                return shape
        names = ", ".join(shape.name for shape in self.shapes)
        raise Usage(f"no shape is called {name!r}; there are: {names}")

    @property
    def tables(self) -> list[str]:
        """All tables that they use."""
        return sorted({table for shape in self.shapes for table in shape.tables})

    @property
    def databases(self) -> list[str]:
        """The databases that they are in."""
        return sorted({table.split(".")[0] for table in self.tables})

    @property
    def patterns(self) -> list[str]:
        """The same as patterns, which mean these tables and no others."""
        return [glob.escape(table) for table in self.tables]

    @property
    def columns(self) -> list[str]:
        """All columns whose values make keys."""
        return sorted({column for shape in self.shapes for columns in shape.tables.values() for column in columns})


def _is_declaration(declared: object) -> bool:
    return isinstance(declared, dict) and all(
        isinstance(tables, dict)
        and all(
            isinstance(columns, list) and all(isinstance(column, str) for column in columns)
            for columns in tables.values()
        )
        for tables in declared.values()
    )


def _mistakes(shape: Shape) -> list[str]:
    mistakes = []
    if not _NAME.fullmatch(shape.name):
        mistakes.append(f"{shape.name!r} is no name of a shape (letters, digits, dots, dashes)")
    if not shape.tables:
        mistakes.append(f"shape {shape.name} has no table")
    mistakes += [
        f"{table!r} of shape {shape.name} is not database.table" for table in shape.tables if table.count(".") != 1
    ]
    if len({len(columns) for columns in shape.tables.values() if columns}) > 1:
        mistakes.append(f"the tables of shape {shape.name} have keys of different numbers of columns")
    return mistakes


def state_key(name: str) -> str:
    """The key of the hash with a cache's state; the braces keep all of one cache in one slot of a cluster.

    Raises:
        Usage: It is no name.
    """
    if not _NAME.fullmatch(name):
        raise Usage(f"{name!r} is no name of a cache (letters, digits, dots, dashes)")
    return f"strata:{{{name}}}"


def entry_key(state: str, shape: str, key: str) -> str:
    """Of one entry."""
    return f"{state}:{shape}:{key}"


def tables_by_name(shapes: Shapes) -> Mapping[str, list[tuple[Shape, tuple[str, ...]]]]:
    """By table in lower case, as no server tells two tables that a coarser name would confuse apart at a cost: the
    shapes that use it, with the columns of their keys."""
    tables: dict[str, list[tuple[Shape, tuple[str, ...]]]] = {}
    for shape in shapes.shapes:
        for table, columns in shape.tables.items():
            tables.setdefault(table.lower(), []).append((shape, columns))
    return tables
