"""What becomes of rows that were written under another version of their table than the version valid at their commit.
Not here: which version is valid (`history.py`), reading rows (`csv_rows.py`, `canal_rows.py`).

TiDB's nodes change to a new schema one after the other, and TiCDC uses only the schema before and the schema after a
DDL. So there are four cases: data of the old or of the new schema, committed while the old or the new one was valid.
A row goes from its own version to the valid one DDL by DDL, by `TREATMENTS`. What is not exact is set aside.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, MOST_DIGITS, arrow_type
from strata_cdc.errors import Crossing, Location, SchemaMismatchError
from strata_cdc.schema.model.conversions import keeps_values
from strata_cdc.schema.model.quadrants import DdlKind, Quadrant
from strata_cdc.schema.model.types import INTEGERS, TypeKind, parse_column_type
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.rows import image, rows_schema
from strata_cdc.ticdc.values import NotAValueError, ValueForm, column_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType
    from strata_cdc.ticdc.history import SinkVersion, TableVersions


class Treatment(StrEnum):
    """What is done to rows to bring them over a DDL."""

    DECODE = "decode"
    """They are the same in both schemas."""
    FILL = "fill"
    """A column that they lack gets its default, if that is a known constant."""
    DROP = "drop"
    """A column that they have and the valid schema lacks is dropped, and its values are counted."""
    CONVERT = "convert"
    """Values get another type, if every value of the old type is a value of the new one."""
    QUARANTINE = "quarantine"
    """They are set aside, with the reason."""


_SET_ASIDE: Final = (Treatment.QUARANTINE, Treatment.QUARANTINE)
_SAME: Final = (Treatment.DECODE, Treatment.DECODE)
TREATMENTS: Final[dict[DdlKind, tuple[Treatment, Treatment]]] = {
    # kind of the DDL:           old data, new schema    new data, old schema
    DdlKind.STATE: _SAME,
    DdlKind.ADD_COLUMN: (Treatment.FILL, Treatment.DROP),
    DdlKind.DROP_COLUMN: (Treatment.DROP, Treatment.FILL),
    DdlKind.CHANGE_COLUMN: (Treatment.CONVERT, Treatment.DECODE),
    DdlKind.ADD_INDEX: _SAME,
    DdlKind.ADD_PARTITION: _SAME,
    DdlKind.PROPERTIES: _SAME,
    DdlKind.TRUNCATE: _SET_ASIDE,
    DdlKind.CREATE_TABLE: _SET_ASIDE,
    DdlKind.DROP_TABLE: _SET_ASIDE,
    DdlKind.DROP_DATABASE: _SET_ASIDE,
    DdlKind.RENAME_TABLE: _SET_ASIDE,
    DdlKind.EXCHANGE_PARTITION: _SET_ASIDE,
    DdlKind.DROP_PARTITION: _SET_ASIDE,
    DdlKind.PARTITIONS: _SET_ASIDE,
    DdlKind.MULTIPLE: _SET_ASIDE,
    DdlKind.UNKNOWN: _SET_ASIDE,
}


class QuadrantCounts(Struct):
    """How many rows were in which case, and what was dropped."""

    rows: Counter[tuple[str, DdlKind, Quadrant]] = field(default_factory=Counter)
    """By table, DDL and quadrant: a row that several DDL are between is in each."""
    first: dict[tuple[str, DdlKind, Quadrant], tuple[Location, Location]] = field(default_factory=dict)
    """By the same, where data and schema are not of one version: the row with the smallest commit timestamp, and the
    schema that it was committed before or after."""
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Values that are not NULL, by table and column."""
    quarantined: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows by table and reason."""


class NotExactError(Exception):
    """Why rows are set aside."""

    ddl: SinkVersion | None = None
    """The version that made them inexact."""


class Translation(Struct, frozen=True):
    """Rows of one version for another one."""

    data: SinkVersion
    """The version that their directory names."""
    valid: SinkVersion | None
    """The version valid at their commit; None if it is not known."""
    versions: TableVersions
    is_positional: bool
    """Whether columns are known by their order alone (CSV)."""
    path: str = ""
    """The rows' file."""

    def translate(self, rows: pa.RecordBatch, counts: QuadrantCounts) -> pa.RecordBatch:
        """The rows with the columns of the valid version.

        Raises:
            SchemaMismatchError: That would not be exact; all rows have to be set aside.
        """
        dropped = Counter[tuple[str, str]]()
        try:
            translated = self._translated(rows, dropped)
        except NotExactError as error:
            reason = str(error)
            counts.quarantined[str(self.data.table), reason] += rows.num_rows
            self._count(rows, counts)
            raise SchemaMismatchError(
                reason,
                table=str(self.data.table),
                remedy="They are kept as they were read. Compare them with TiDB's rows.",
            ).across(self._crossing(error.ddl)) from error
        self._count(rows, counts)
        counts.dropped += dropped
        return translated

    def _count(self, rows: pa.RecordBatch, counts: QuadrantCounts) -> None:
        if self.quadrant is None:
            is_state = self.data.kind is DdlKind.STATE
            quadrant = Quadrant.OLD_OLD if is_state else Quadrant.NEW_NEW
            counts.rows[str(self.data.table), self.data.kind, quadrant] += rows.num_rows
            return
        row = Location(commit_ts=rows.column("ts")[0].as_py(), file=self.path, offset=rows.column("number")[0].as_py())
        for ddl in self.crossed():
            key = (str(self.data.table), ddl.kind, self.quadrant)
            counts.rows[key] += rows.num_rows
            if key not in counts.first or _order(row) < _order(counts.first[key][0]):
                counts.first[key] = (row, ddl.location)

    @property
    def quadrant(self) -> Quadrant | None:
        """Whose data these are, under which schema; None if their version is the valid one."""
        if self.valid is None or self.data.ts > self.valid.ts:
            # Also at the timestamp of their version itself: the schema before it is valid until then.
            return Quadrant.NEW_OLD
        return Quadrant.OLD_NEW if self.data.ts < self.valid.ts else None

    def crossed(self) -> tuple[SinkVersion, ...]:
        """The versions that the DDL made between the data and the valid version."""
        if self.valid is None:
            return tuple(version for version in self.versions.versions if version.ts <= self.data.ts)
        first, last = sorted((self.data, self.valid), key=lambda version: version.ts)
        return self.versions.between(first, last)

    def _crossing(self, ddl: SinkVersion | None) -> Crossing | None:
        if self.quadrant is None:
            return None
        ddl = ddl or self.crossed()[-1]
        return Crossing(str(ddl.kind), str(self.quadrant), ddl.location)

    def _steps(self, valid: SinkVersion) -> list[tuple[SinkVersion, SinkVersion, SinkVersion]]:
        """The DDL between both versions: from, to, and the version that the DDL made."""
        versions = [min(self.data, valid, key=lambda version: version.ts), *self.crossed()]
        pairs = list(pairwise(versions))
        if self.data.ts < valid.ts:
            return [(before, after, after) for before, after in pairs]
        return [(after, before, after) for before, after in reversed(pairs)]

    def _translated(self, rows: pa.RecordBatch, dropped: Counter[tuple[str, str]]) -> pa.RecordBatch:
        if self.valid is None:
            first = self.versions.versions[0]
            raise NotExactError(f"the rows are not later than the first schema of their table, at {first.location}")
        if not self.is_order_known:
            raise NotExactError("a DDL changed the order of the columns, and the rows do not show which they have")
        for source, target, ddl in self._steps(self.valid):
            treatment = TREATMENTS[ddl.kind][0 if ddl is target else 1]
            step = _CrossedDdl(source, target, ddl, treatment)
            try:
                rows = step.apply(rows, dropped)
            except NotExactError as error:
                error.ddl = ddl
                raise
        return rows

    @property
    def is_order_known(self) -> bool:
        """Whether the order of the columns is that of the rows' own version.

        The name of a schema file does not depend on it, and TiCDC goes on in the directory of an older version with the
        same columns: then the rows may have either order.
        """
        if not self.is_positional or self.valid is None or self.valid.ts <= self.data.ts:
            return True
        names = [column.name for column in self.data.definition.columns]
        return not any(
            version.checksum == self.data.checksum and [column.name for column in version.definition.columns] != names
            for version in self.versions.between(self.data, self.valid)
        )


def _order(row: Location) -> tuple[int, str, int]:
    return row.commit_ts or 0, row.file or "", row.offset or 0


class _CrossedDdl(Struct, frozen=True):
    """A DDL that rows are brought over."""

    source: SinkVersion
    target: SinkVersion
    ddl: SinkVersion
    treatment: Treatment

    def apply(self, rows: pa.RecordBatch, dropped: Counter[tuple[str, str]]) -> pa.RecordBatch:
        """The rows with the columns of the target."""
        if self.treatment is Treatment.QUARANTINE:
            raise NotExactError(f"the rows were written {self._when()}, which changes which rows there are")
        origins = self._origins()
        self._check(origins)
        before, after = (self._image(rows.column(name), origins, name, dropped, rows) for name in ("before", "after"))
        renamed = self._renamed(origins)
        missing = _changed(
            rows.column("missing"), lambda names: _missing(names, renamed, self.source, self._new(origins))
        )
        invalid = _changed(rows.column("invalid"), lambda texts: _texts(texts, renamed))
        kept = (rows.column(name) for name in ("ts", "op", "number"))
        columns = [*kept, after, before, missing, invalid, rows.column("key")]
        return pa.RecordBatch.from_arrays(columns, schema=rows_schema(self.target.definition))

    def _when(self) -> str:
        order = "before" if self.ddl is self.target else "after"
        return f"under the schema {order} {self.ddl.kind.value} at {self.ddl.location}"

    def _origins(self) -> list[int | None]:
        """For each column of the target its number in the source."""
        if self.source.column_ids is not None and self.target.column_ids is not None:
            known: dict[Any, int] = {number: at for at, number in enumerate(self.source.column_ids)}
            return [known.get(number) for number in self.target.column_ids]
        known = {column.name: at for at, column in enumerate(self.source.definition.columns)}
        return [known.get(column.name) for column in self.target.definition.columns]

    def _check(self, origins: list[int | None]) -> None:
        extra = len(self.source.definition.columns) - sum(origin is not None for origin in origins)
        lacking = origins.count(None)
        if lacking and self.treatment is not Treatment.FILL:
            raise NotExactError(f"the rows were written {self._when()}, and lack columns")
        if extra and self.treatment is not Treatment.DROP:
            raise NotExactError(f"the rows were written {self._when()}, and have other columns")
        keys = [definition.primary_key for definition in (self.source.definition, self.target.definition)]
        renamed = self._renamed(origins)
        if {renamed.get(name) for name in keys[0]} != set(keys[1]):
            raise NotExactError(f"the rows were written {self._when()}, under another primary key")
        for column, origin in zip(self.target.definition.columns, origins, strict=True):
            if origin is not None:
                self._check_type(self.source.definition.columns[origin], column)

    def _check_type(self, before: Column, after: Column) -> None:
        is_same = before.column_type == after.column_type and (after.nullable or not before.nullable)
        if not is_same and not (self.treatment is Treatment.CONVERT and is_exact(before, after)):
            raise NotExactError(
                f"the rows were written {self._when()}, and column {after.name} is {before.column_type} in them, "
                f"not {after.column_type}: not every value is the same"
            )

    def _renamed(self, origins: list[int | None]) -> dict[str, str]:
        """From the names of the source's columns to those of the target."""
        columns = self.source.definition.columns
        targets = zip(self.target.definition.columns, origins, strict=True)
        return {columns[origin].name: column.name for column, origin in targets if origin is not None}

    def _new(self, origins: list[int | None]) -> list[str]:
        columns = zip(self.target.definition.columns, origins, strict=True)
        return [column.name for column, origin in columns if origin is None]

    def _image(
        self,
        rows: pa.Array,
        origins: list[int | None],
        name: str,
        dropped: Counter[tuple[str, str]],
        batch: pa.RecordBatch,
    ) -> pa.Array:
        is_there = rows.is_valid()
        old = rows.flatten()
        columns = []
        for column, origin in zip(self.target.definition.columns, origins, strict=True):
            if origin is None:
                unknown = _unknown_rows(batch, self.source) if name == "before" else None
                columns.append(_filled(column, is_there, unknown, self._when()))
            else:
                columns.append(old[origin].cast(arrow_type(column)))
        for at in set(range(len(old))) - set(origins):
            dropped[str(self.source.table), self.source.definition.columns[at].name] += (
                len(old[at]) - old[at].null_count
            )
        return image(columns, rows_schema(self.target.definition).field(name).type, is_there)


def is_exact(before: Column, after: Column) -> bool:
    """Whether every value of a column is a value of the changed column, and the same."""
    old, new = (parse_column_type(column.column_type) for column in (before, after))
    if before.nullable and not after.nullable:
        return False
    if old.kind in INTEGERS and new.kind in INTEGERS:
        (least, most), (lower, upper) = map(_bounds, (old, new))
        return lower <= least and most <= upper
    if old.kind is new.kind is TypeKind.DECIMAL:
        digits = [((kind.length or 10) - (kind.decimals or 0), kind.decimals or 0) for kind in (old, new)]
        is_kept = (old.length or 0) > MOST_DIGITS or (new.length or 0) <= MOST_DIGITS
        return is_kept and all(wide >= narrow for narrow, wide in zip(*digits, strict=True))
    # TiDB keeps all texts in UTF-8.
    return keeps_values(*(replace(column, character_set="utf8mb4") for column in (before, after)))


def _bounds(kind: ColumnType) -> tuple[int, int]:
    bits = _INTEGER_BITS[kind.kind]
    return (0, (1 << bits) - 1) if kind.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)


_INTEGER_BITS: Final = {
    TypeKind.TINYINT: 8,
    TypeKind.SMALLINT: 16,
    TypeKind.MEDIUMINT: 24,
    TypeKind.INT: 32,
    TypeKind.BIGINT: 64,
}


def _filled(column: Column, is_there: pa.Array, unknown: pa.Array | None, when: str) -> pa.Array:
    """The default of a column that rows do not have."""
    if column.default_is_expression or (column.default is None and not column.nullable):
        raise NotExactError(f"the rows were written {when}, and the default of column {column.name} is not known")
    kind = arrow_type(column)
    if column.default is None:
        return pa.nulls(len(is_there), kind)
    form = ValueForm(BinaryForm.BASE64, has_label_numbers=False, time_zone=None)
    try:
        converted = column_values(column, form).convert(pa.array([column.default], pa.string()))
    except NotAValueError as error:
        raise NotExactError(f"the default of column {column.name} is no value of its type") from error
    if converted.invalid is not None:
        raise NotExactError(f"the default of column {column.name} is a date that no calendar has")
    is_known = is_there if unknown is None else pc.and_not(is_there, unknown)
    return converted.values.take(pc.if_else(is_known, pa.scalar(0, pa.int8()), pa.scalar(None, pa.int8())))


def _unknown_rows(rows: pa.RecordBatch, source: SinkVersion) -> pa.Array:
    """Of which rows no value of the before image is known."""
    lengths = pc.fill_null(pc.list_value_length(rows.column("missing")), 0)
    return pc.greater_equal(lengths, len(source.definition.columns))


def _changed(column: pa.Array, change: Callable[[Any], Any]) -> pa.Array:
    """A column of lists or maps after a change of each; few rows have any."""
    if column.null_count == len(column):
        return column
    return pa.array([None if value is None else change(value) or None for value in column.to_pylist()], column.type)


def _missing(names: list[str], renamed: dict[str, str], source: SinkVersion, new: list[str]) -> list[str]:
    kept = [f"{prefix}{renamed[name]}" for prefix, name in map(_split, names) if name in renamed]
    # Of an image of which nothing is known, a new column is not known either.
    return kept + [f"{BEFORE}.{name}" for name in new if len(names) >= len(source.definition.columns)]


def _texts(texts: list[tuple[str, str]], renamed: dict[str, str]) -> list[tuple[str, str]]:
    split = ((*_split(name), text) for name, text in texts)
    return [(f"{prefix}{renamed[name]}", text) for prefix, name, text in split if name in renamed]


def _split(name: str) -> tuple[str, str]:
    """The prefix of an image, and the name of the column."""
    prefix = f"{BEFORE}."
    return (prefix, name.removeprefix(prefix)) if name.startswith(prefix) else ("", name)
