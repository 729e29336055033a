"""Which shapes can be served with the tables as they are at a position of a stream, and as what; and which columns
may make keys: those of types in which equal values have one text.
Not here: the text (`keys.py`), the live server's tables (`live_tables.py`), telling the cache
(`invalidator.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.cache.keys import BYTES, DATE, DECIMAL, INTEGER, TEXT, YEAR
from strata_cdc.cache.live_tables import LiveTables, may_cascade
from strata_cdc.cache.shapes import ANY_KINDS
from strata_cdc.errors import SchemaGapError
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.cache.shapes import Shape, Shapes
    from strata_cdc.cache.touched import Toucher
    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import Column, TableDefinition
    from strata_cdc.streams.events import Ddl
    from strata_cdc.streams.stream import ChangeStream


class Serving:
    """The shapes of a cache, before the tables of its source."""

    def __init__(self, source: Source, shapes: Shapes, on_remark: Callable[[str], None] = lambda _: None) -> None:
        """Takes the source, the shapes, and a function that is called with shapes that cannot be served."""
        self._source, self._shapes, self._on_remark = source, shapes, on_remark
        self._may_cascade: set[str] = set()
        """Tables of statements that were read: the key may be gone when the server is queried."""
        self._reported: dict[str, str] = {}
        """Why shapes are not served, as it was remarked, without the numbers of transactions."""

    def note(self, event: Ddl) -> None:
        """Stores a statement on tables of the shapes."""
        if may_cascade(event.statement):
            self._may_cascade |= {table.lower() for table in event.tables}

    def look(self, toucher: Toucher, stream: ChangeStream, seq: int | None) -> dict[str, str]:
        """Looks at the tables as the rows of a transaction have them; None: of the last one that was read.

        Returns:
            The word of each shape, '' for those that cannot be served.
        """
        live = LiveTables.ask(self._source.address, self._shapes.databases)
        cascades = self._cascades(live)

        def lookup(table: TableName) -> TableDefinition:
            return stream.definition(table, seq)

        words = {}
        for shape in self._shapes.shapes:
            kinds, why = kinds_of_shape(shape, lookup)
            unlogged = _unlogged(shape, live, cascades)
            if unlogged:
                kinds, why = None, unlogged
            toucher.kinds[shape.name] = kinds
            words[shape.name] = "" if kinds is None else shape.word(kinds)
            self._report(shape, "" if kinds is not None else why)
        return words

    def _report(self, shape: Shape, why: str) -> None:
        """Remarks why a shape is not served, once for as long as it is not; '' if it is."""
        lasting = _NUMBERS.sub("", why)
        if why and self._reported.get(shape.name) != lasting:
            self._on_remark(f"shape {shape.name} is not served: {why}")
        self._reported[shape.name] = lasting

    def _cascades(self, live: LiveTables) -> set[str]:
        """Tables, in lower case, whose rows foreign keys change without row events."""
        engine = open_store(self._source.store_url, OnMissing.EMPTY)
        try:
            known = {
                str(unlogged_cascade.name).lower() for unlogged_cascade in unlogged_cascades(engine, self._source.name)
            }
        finally:
            engine.dispose()
        return known if live.logs_cascades else known | live.cascades | self._may_cascade


def _unlogged(shape: Shape, live: LiveTables, cascades: set[str]) -> str:
    """Why rows of a shape's tables change without row events of these; '' if they do not."""
    for table in sorted(shape.tables):
        if table.lower() in cascades:
            return f"foreign keys change rows of {table}, and this server does not log that"
        if why := live.unlogged(table):
            return why
    return ""


_NUMBERS: Final = re.compile(r"[0-9a-f]+(-[0-9a-f]+)+|\d+")
_KINDS: Final = {Family.INTEGER: INTEGER, Family.YEAR: YEAR, Family.DECIMAL: DECIMAL, Family.BYTES: BYTES}

_NOT_ONE_TO_ONE: Final = frozenset({"cp932_bin"})
"""Of charsets in which the server writes two letters as one: U+6659 and U+6661 are FAD7 (9.7.4, all others are
one-to-one; `tests/cache/test_keys.py` asks it)."""


def kind_of_column(column: Column) -> str | None:
    """The kind of a column's values, as `keys.py` has them; None where equal values may look different: text whose
    collation has equal letters, floats, times, labels, and what is long."""
    column_type = parse_column_type(column.column_type)
    if column_type.kind is TypeKind.DATE:
        return DATE
    family = column_type.kind.facts.family
    if family is Family.CHARACTERS:
        collation = column.collation or ""
        return TEXT if collation.endswith("_bin") and collation not in _NOT_ONE_TO_ONE else None
    return _KINDS.get(family)


def kinds_of_shape(shape: Shape, lookup: Callable[[TableName], TableDefinition]) -> tuple[str | None, str]:
    """The kinds of a shape's keys with the tables as they are.

    Returns:
        The kinds, or None if it cannot be served, and why.
    """
    kinds_of_table: dict[str, str] = {}
    for table, columns in shape.tables.items():
        try:
            definition = lookup(TableName.parse(table))
        except SchemaGapError as error:
            return None, error.message
        if not columns:
            continue
        kinds = ""
        for name in columns:
            column = definition.column(name)
            kind = None if column is None else kind_of_column(column)
            if kind is None:
                return None, _fault(table, name, column)
            kinds += kind
        kinds_of_table[table] = kinds
    if len(set(kinds_of_table.values())) > 1:
        listed = ", ".join(f"{table} {kinds}" for table, kinds in kinds_of_table.items())
        return None, f"the key's columns are of different kinds in its tables: {listed}"
    return next(iter(kinds_of_table.values()), ANY_KINDS), ""


def _fault(table: str, name: str, column: Column | None) -> str:
    if column is None:
        return f"{table} has no column {name}"
    collation = f" {column.collation}" if column.collation else ""
    return (
        f"{table}.{name} is {column.column_type}{collation}, and makes no keys: integers, years, decimals, dates, "
        "BINARY, and CHAR and VARCHAR with a _bin collation do. Of others, values that MySQL takes for equal may look "
        "different"
    )
