"""Rules compiled from a schema version and from the stream, in Great Expectations' own JSON form.
Not here: running them (`run.py`), users' own (`own.py`).

Every rule must hold for everything that a MySQL server can write: what a legal binlog may contradict (a row that came
back after a TRUNCATE, a zero date) is a warning at most. Values that a partial image lacks, and those that the column's
Arrow type cannot express, are NULL in the table and exempt.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from strata_cdc.changes.arrow import BEFORE, may_be_invalid
from strata_cdc.runs.verdict import Severity
from strata_cdc.schema.model.types import (
    BLOBS,
    SPATIAL,
    TEXTS,
    ColumnType,
    Family,
    TypeKind,
    kinds_of,
    parse_column_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from strata_cdc.schema.model.definition import Column, TableDefinition

    _Found = tuple[str, dict[str, Any]]
    _Compiled = Callable[[ColumnType], _Found | None]

IMAGES_AGREE = "_images_agree"
"""Derived column: whether the operation has the images that it must have."""

MOST_LABELS = 2000
"""Enums with more labels are not listed in an expectation: the page that shows it would be unreadable."""

_NOT_IN_FRAMES = re.compile("[.`]")
_LONGEST_TIME = 839 * 3600 * 1_000_000 - 1
"""Microseconds: of MariaDB `838:59:59.999999`; MySQL's longest time has no fraction (manual, "The TIME Type")."""
_LAST_YEAR = 2155


class RowSelection(Struct, frozen=True):
    """Which rows of a change table a rule is about."""

    deletes: bool = True
    """Whether deletes are among them; these have no after image."""
    unless_missing: str | None = None
    """Without the rows whose images lack this column."""
    unless_invalid: str | None = None
    """Without the rows of which the column's type cannot express the value."""
    if_invalid: str | None = None
    """Only those."""

    def sql(self) -> str:
        """The condition in Spark SQL."""
        parts = [] if self.deletes else ["_op != 'delete'"]
        if self.unless_missing is not None:
            parts.append(f"(_missing IS NULL OR NOT array_contains(_missing, {_literal(self.unless_missing)}))")
        if self.unless_invalid is not None:
            parts.append(f"(_invalid IS NULL OR NOT map_contains_key(_invalid, {_literal(self.unless_invalid)}))")
        if self.if_invalid is not None:
            parts.append(f"map_contains_key(_invalid, {_literal(self.if_invalid)})")
        return " AND ".join(parts)


ALL_ROWS = RowSelection()
AFTER_IMAGES = RowSelection(deletes=False)


class ImageChain(Struct, frozen=True):
    """The columns by which a row is known, and those of its images, as the change table calls them."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    invalid: dict[str, str] = {}
    """Of these, columns whose values `_invalid` may have to distinguish -> what they are called there."""

    def invalid_of(self, names: Sequence[str]) -> list[str | None]:
        """What some columns are called in `_invalid`; None for one that is never in it."""
        return [self.invalid.get(name) for name in names]


class Rule(Struct, frozen=True):
    """One expectation."""

    expectation: str
    """As Great Expectations names it, in snake case."""
    severity: Severity
    because: str
    """What it rests on; shown beside it."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """The expectation's own arguments, column included."""
    condition: str | None = None
    """SQL that selects the rows it is about; None for all."""
    where: str | None = None
    """The same as a user writes it, in MySQL's SQL; it becomes the condition when a version is there to read it."""
    versions: tuple[int | None, int | None] | None = None
    """First and last schema version for which a user's rule is given; None for all."""
    owner: str | None = None
    """The person who answers for a user's rule when it fails."""
    location: str = ""
    """Of a user's rule: file and line."""
    selection: RowSelection = ALL_ROWS
    """The same of a rule of ours, for engines without Spark."""
    members: tuple[str, ...] = ()
    """Of a rule about a SET: its labels, which its regular expression is made of."""
    chain: ImageChain | None = None
    """Of the rule that images follow from each other: what its query reads."""

    @classmethod
    def of_rows(
        cls,
        expectation: str,
        severity: Severity,
        because: str,
        kwargs: dict[str, Any],
        selection: RowSelection,
        members: tuple[str, ...] = (),
    ) -> Rule:
        """A rule of ours about the rows of a selection."""
        return cls(
            expectation,
            severity,
            because,
            kwargs,
            condition=selection.sql() or None,
            selection=selection,
            members=members,
        )

    @property
    def column(self) -> str | None:
        """The column it is about, if it is about one."""
        column = self.kwargs.get("column")
        return None if column is None else str(column)


class Exemptions(Struct, frozen=True):
    """What must be exempt in a batch, as its writer counted it; 0 keeps the conditions simple and the checks fast."""

    partial_rows: int
    invalid_rows: int

    def selection(self, column: Column) -> RowSelection:
        """The rows whose after image must have a value of this column."""
        return RowSelection(
            deletes=False,
            unless_missing=column.name if self.partial_rows else None,
            unless_invalid=column.name if self.invalid_rows else None,
        )


def frame_column(name: str) -> str:
    """A column of a change table as the judged frame has it: Spark takes a name with a dot for a field of a struct."""
    return _NOT_IN_FRAMES.sub(lambda match: f"@{ord(match[0]):04x}", name)


def rules_of_definition(definition: TableDefinition, names: Mapping[str, str], exempt: Exemptions) -> list[Rule]:
    """What the after images decoded by a schema version must satisfy, column by column in table order.

    Args:
        names: From a column to what the change table calls it.
        exempt: What is exempt from them.
    """
    return [
        rule
        for column in definition.columns
        for rule in _column_rules(column, frame_column(names[column.name]), exempt)
    ]


def _column_rules(column: Column, name: str, exempt: Exemptions) -> Iterator[Rule]:
    if not column.nullable:
        yield Rule.of_rows(
            "expect_column_values_to_not_be_null",
            Severity.ERROR,
            f"{column.name} is declared NOT NULL",
            {"column": name},
            exempt.selection(column),
        )
    kind = parse_column_type(column.column_type)
    if kind.kind is TypeKind.JSON and exempt.invalid_rows:
        yield Rule.of_rows(
            "expect_column_values_to_be_null",
            Severity.WARNING,
            f"of {column.name} the log has only what changed in these documents (MINIMAL images with "
            "binlog_row_value_options=PARTIAL_JSON): the column is NULL, and the change is kept here",
            {"column": "_invalid"},
            RowSelection(if_invalid=column.name),
        )
    type_rule = TYPE_RULES[kind.kind](kind)
    if type_rule is not None:
        expectation, kwargs = type_rule
        yield Rule.of_rows(
            expectation,
            Severity.ERROR,
            f"{column.name} is {_shortened(column.column_type)}",
            {"column": name, **kwargs},
            AFTER_IMAGES,
            kind.labels if kind.kind is TypeKind.SET else (),
        )


def _between(low: int, high: int | None) -> _Found:
    """A range of values; None for no upper bound."""
    return ("expect_column_values_to_be_between", {"min_value": low, "max_value": high})


def _nothing(_: ColumnType) -> _Found | None:
    """The column cannot hold anything else."""
    return None


def _unsigned_below(bits: int) -> _Compiled:
    """Of integers that are kept in a wider type where they are unsigned; others cannot leave their range."""
    return lambda kind: _between(0, 2**bits - 1) if kind.unsigned else None


def _medium(kind: ColumnType) -> _Found:
    return _between(0, 2**24 - 1) if kind.unsigned else _between(-(2**23), 2**23 - 1)


def _not_negative(kind: ColumnType) -> _Found | None:
    return _between(0, None) if kind.unsigned else None


def _decimal(kind: ColumnType) -> _Found | None:
    # Decimals of more than 38 digits are kept as text, which has no order of numbers.
    digits = kind.length or 10
    if digits > 38:
        return None
    # The bounds are no values of the column, and whole: JSON has no decimals.
    above = 10 ** (digits - (kind.decimals or 0))
    kwargs: dict[str, Any] = {"min_value": -above, "max_value": above, "strict_min": True, "strict_max": True}
    if kind.unsigned:
        kwargs |= {"min_value": 0, "strict_min": False}
    return "expect_column_values_to_be_between", kwargs


def _document(_: ColumnType) -> _Found:
    return "expect_column_values_to_be_json_parseable", {}


def _bits(kind: ColumnType) -> _Found | None:
    return _between(0, 2**kind.length - 1) if kind.length is not None and kind.length > 1 else None


def _label(kind: ColumnType) -> _Found | None:
    if len(kind.labels) > MOST_LABELS:
        return None
    # '' is what a value outside the labels became (manual, "The ENUM Type": index 0).
    return "expect_column_values_to_be_in_set", {"value_set": [*kind.labels, ""]}


def _members(kind: ColumnType) -> _Found:
    labels = "|".join(re.escape(label) for label in kind.labels)
    return "expect_column_values_to_match_regex", {"regex": rf"\A(?:(?:{labels})(?:,(?:{labels}))*)?\z"}


def _no_longer(kind: ColumnType) -> _Found:
    return "expect_column_value_lengths_to_be_between", {"max_value": _length(kind)}


def _as_long(kind: ColumnType) -> _Found:
    return "expect_column_value_lengths_to_equal", {"value": _length(kind)}


def _length(kind: ColumnType) -> int:
    return 1 if kind.length is None else kind.length


TYPE_RULES: Final[dict[TypeKind, _Compiled]] = {
    TypeKind.TINYINT: _unsigned_below(8),
    TypeKind.SMALLINT: _unsigned_below(16),
    TypeKind.MEDIUMINT: _medium,
    TypeKind.INT: _unsigned_below(32),
    TypeKind.BIGINT: _unsigned_below(64),
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: _not_negative,
    TypeKind.DOUBLE: _not_negative,
    TypeKind.BIT: _bits,
    TypeKind.CHAR: _no_longer,
    TypeKind.VARCHAR: _no_longer,
    TypeKind.BINARY: _as_long,
    TypeKind.VARBINARY: _no_longer,
    **dict.fromkeys(TEXTS | BLOBS, _nothing),
    TypeKind.ENUM: _label,
    TypeKind.SET: _members,
    TypeKind.DATE: _nothing,
    TypeKind.DATETIME: _nothing,
    TypeKind.TIMESTAMP: _nothing,
    TypeKind.TIME: lambda _: _between(-_LONGEST_TIME, _LONGEST_TIME),
    TypeKind.YEAR: lambda _: _between(0, _LAST_YEAR),
    TypeKind.JSON: _document,
    TypeKind.VECTOR: _nothing,
    **dict.fromkeys(kinds_of(Family.FIXED_BYTES), _nothing),
    **dict.fromkeys(SPATIAL, _nothing),
}
"""What the values of each column type must satisfy."""


class StreamFacts(Struct, frozen=True):
    """What the plan knows of a table's changes in an interval before any is decoded."""

    rows: int
    """In the events' own counts."""
    first_seq: int
    last_seq: int
    """Ordinals of the first and last transaction of the interval, both inclusive."""
    versions: tuple[int, ...]
    """The schema versions that the slices were planned with."""


def rules_of_stream(facts: StreamFacts) -> list[Rule]:
    """What the changes of a table must satisfy together, whatever its columns are."""
    error = Severity.ERROR
    return [
        Rule(
            "expect_table_row_count_to_equal",
            error,
            "the row events of the binlog count these rows",
            {"value": facts.rows},
        ),
        Rule(
            "expect_compound_columns_to_be_unique",
            error,
            "a change is one row of one transaction",
            {"column_list": ["_seq", "_row"]},
        ),
        *(
            Rule(
                "expect_column_values_to_not_be_null", error, "every change says where it comes from", {"column": name}
            )
            for name in ("_op", "_seq", "_row", "_schema_version", "_committed_at", "_binlog_file", "_interval")
        ),
        Rule(
            "expect_column_values_to_be_between",
            error,
            "these transactions are the interval's",
            {"column": "_seq", "min_value": facts.first_seq, "max_value": facts.last_seq},
        ),
        Rule(
            "expect_column_values_to_be_in_set",
            error,
            "the plan knows no other schema version",
            {"column": "_schema_version", "value_set": list(facts.versions)},
        ),
        *(
            Rule("expect_column_values_to_be_in_set", error, because, {"column": column, "value_set": allowed})
            for column, allowed, because in (
                ("_op", ["insert", "update", "delete"], "MySQL logs no other change of a row"),
                (IMAGES_AGREE, [True], "an insert has no image before it, an update and a delete have"),
            )
        ),
        Rule(
            "expect_column_values_to_be_null",
            Severity.WARNING,
            "values that their column cannot express (zero dates, changes of unknown documents) are NULL in it and "
            "kept verbatim here",
            {"column": "_invalid"},
        ),
    ]


def images_agree_sql() -> str:
    """SQL of the derived column `IMAGES_AGREE`."""
    return "(_op = 'insert') = (_before IS NULL)"


def history_rule(definition: TableDefinition, names: Mapping[str, str]) -> Rule:
    """The images of one key must follow from each other: what a change found is what the last one left.

    A warning, since a server may change rows without logging them: TRUNCATE and DROP PARTITION, cascades of foreign
    keys before 9.6, sessions with `sql_log_bin` off.

    Args:
        definition: A table with a primary key.
        names: From a column to what the change table calls it.
    """
    columns = [names[column.name] for column in definition.columns]
    key_columns = [names[column.name] for column in definition.columns if column.name in definition.primary_key]

    invalid = {names[column.name]: column.name for column in definition.columns if may_be_invalid(column)}

    def side(number: int, of: Callable[[str], str], ops: str) -> str:
        prefix = f"{BEFORE}." if number == 0 else ""
        texts = {name: f"try_element_at(_invalid, {_in_query(prefix + own)})" for name, own in invalid.items()}
        whole = [*key_columns, *(name for name in key_columns if name in invalid)]
        values = [*map(of, key_columns), *(texts[name] for name in whole[len(key_columns) :])]
        key = ", ".join(f"{value} AS k{at}" for at, value in enumerate(values))
        # NULL leaves the hash as it is: whether a value is one is hashed beside it.
        image = ", ".join(f"{value}, isnull({value})" for value in [*map(of, columns), *texts.values()])
        # The only parts from outside are names, quoted by `_identifier`.
        read = f"SELECT {key}, xxhash64({image}) AS image, {number} AS side, {_PLACE} FROM {{batch}}"  # noqa: S608  see above
        return f"{read} WHERE _op IN ({ops})"

    keys = range(len(key_columns) + len(invalid.keys() & set(key_columns)))
    before = side(0, lambda name: f"_before.{_identifier(name)}", _UPDATE_DELETE)
    after = side(1, lambda name: _identifier(frame_column(name)), _INSERT_UPDATE)
    window = f"(PARTITION BY {', '.join(f'k{at}' for at in keys)} ORDER BY _seq, _row, side)"
    last = f"lag(side) OVER {window} AS last_side, lag(image) OVER {window} AS last_image"
    ordered = f"SELECT *, {last} FROM ({before} UNION ALL {after}) AS events"  # noqa: S608  as above
    query_of_places = f"SELECT {_PLACE}, {', '.join(f'k{at}' for at in keys)} FROM ({ordered}) AS ordered"  # noqa: S608  as above
    query = f"{query_of_places} WHERE last_side = side OR (side = 0 AND last_image != image)"
    return Rule(
        "unexpected_rows_expectation",
        Severity.WARNING,
        "what a change of a row found is what the change before it left",
        {"unexpected_rows_query": query},
        chain=ImageChain(tuple(key_columns), tuple(columns), invalid),
    )


_PLACE = "_gtid, _seq, _row"
_UPDATE_DELETE = "'update', 'delete'"
_INSERT_UPDATE = "'insert', 'update'"


def rule_of_version(version: int) -> Rule:
    """Rows of a file are of the schema version that the file declares."""
    return Rule(
        "expect_column_values_to_be_in_set",
        Severity.ERROR,
        "this version has decoded the file",
        {"column": "_schema_version", "value_set": [version]},
    )


def _literal(text: str) -> str:
    """A string literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _in_query(text: str) -> str:
    """A string literal in a query, which Great Expectations takes for a template."""
    return _literal(text).replace("{", "{{").replace("}", "}}")


def _identifier(name: str) -> str:
    """A quoted name of Spark SQL; Great Expectations takes the query for a template, where braces are doubled."""
    return "`" + name.replace("`", "``").replace("{", "{{").replace("}", "}}") + "`"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
