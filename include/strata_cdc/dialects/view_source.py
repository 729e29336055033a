"""The data of which the views of a table are made: where the rows of each version have the value of each column.
Not here: the views (`views.py`, `history.py`), finding this data for a table (`views/`)."""

from __future__ import annotations

import pyarrow as pa  # noqa: TC002  msgspec asks for it
from msgspec import Struct
from sqlglot import exp  # noqa: TC002  likewise

from strata_cdc.schema.model.definition import Column  # noqa: TC001  likewise


class TypeChange(Struct, frozen=True):
    """An ALTER that gave a column another type."""

    before: Column
    after: Column
    truncates: bool = False
    """Whether fractions of seconds were cut, not rounded."""
    time_zone: str | None = None
    """Time zone of the session, if it matters."""
    numbers_zeros: bool = True
    """Whether a column that became AUTO_INCREMENT got numbers instead of zeros, too."""
    unknown: str | None = None
    """Why it is not known what the server made of the values; None: it is."""

    @property
    def shown(self) -> str:
        """The change in words."""
        return f"{self.before.name} was {self.before.column_type}, and is {self.after.column_type}"


class MadeValues(Struct, frozen=True):
    """The results of conversions that SQL does not have: a finite mapping of values."""

    name: str
    """Name of the query that has them; no column's name begins with it."""
    before: pa.Array
    """The values as rows have them; each once, none NULL."""
    after: pa.Array
    """What each value is now; none NULL."""
    texts: pa.Array | None = None
    """What `_invalid` would have for each of these now; None: nothing for all of them."""
    asks_texts: bool = False
    """Whether `before` has what `_invalid` has for a value, a colon, and the value: several values look the same."""


class ColumnSource(Struct, frozen=True):
    """Where rows of some versions have the value of a column."""

    physical: tuple[str, ...] = ()
    """Columns of the change table; at most one of them has a value. Empty for a literal."""
    is_cast: bool = False
    """Whether these columns have other types than the column has now."""
    missing: str = ""
    """The column's name in `_missing` and `_invalid`."""
    in_key: bool = False
    """Whether images before changes have it even if they have only what identifies rows."""
    literal: pa.Scalar | None = None
    """A value of the column's type; None for NULL."""
    literal_text: str | None = None
    """What `_invalid` would have for the literal."""
    lacking: ColumnSource | None = None
    """The value that the column gets from an INSERT that does not name it."""
    unknown: str | None = None
    """What the log does not have, in words; None: it has the value."""
    kind: pa.DataType | None = None
    """Type of the values there, if there are `steps`."""
    steps: tuple[TypeChange, ...] = ()
    """The conversions of the values since then, in order."""
    made: MadeValues | None = None
    """The results of `steps` that SQL does not have."""
    by_text: bool = False
    """Whether the values alone do not tell what `steps` made of them: then all results are in `made`."""
    loses_texts: bool = False
    """Whether it is not known what `steps` made of a value that `_invalid` distinguishes from others."""
    of_null: ColumnSource | None = None
    """What NULL became; None: it still is NULL."""
    empty_text: str | None = None
    """What `_invalid` would have for an empty text if the type of that time had had an empty label; None: `_invalid` is
    used as it is."""

    @property
    def is_in_no_file(self) -> bool:
        """Whether nothing was published of these versions: the change table would have the column."""
        return bool(self.missing) and not self.physical


class RowEnd(Struct, frozen=True):
    """Which rows of a system-versioned table are current: those whose end is one of some moments, or is in no image."""

    physical: tuple[str, ...]
    """Columns of the change table with the ends; at most one of them has a value. Empty if nothing was published."""
    of_current: tuple[pa.Scalar, ...]
    """The ends of current rows."""


class Branch(Struct, frozen=True):
    """Rows of some versions in one change table."""

    relation: str
    versions: tuple[int, ...]
    column_sources: tuple[ColumnSource, ...]
    """For each column of the view; those of earlier stages are not used."""
    stage: int = 0
    """The stage to which the versions belong."""
    end: RowEnd | None = None
    """Of a system-versioned table: its changes also have rows of the past, which are not the table's."""


class ViewColumn(Struct, frozen=True):
    """A column of the view."""

    name: str
    """Its name in MySQL's table, and in the view of the present rows."""
    published: str
    """Its name in change tables, and in the view of all changes; it differs from Strata's own columns there."""
    kind: pa.DataType
    is_key: bool = False
    is_document: bool = False
    """Whether it is JSON: the log may have only the changes of the document."""
    is_generated: bool = False
    """Whether MariaDB may leave it out of the images of updates that change it."""
    has_texts: bool = False
    """Whether `_invalid` may be needed to distinguish its values."""
    is_zero: bool = False
    """Whether a row that got no value for it has the zero date."""
    labelled: str = ""
    """`enum` or `set` for a column of labels."""
    stage: int = 0
    """For a column of a key, or one that is not shown: the stage whose rows it distinguishes."""
    is_shown: bool = True
    """Whether the view has it; False: a column as it was in a stage."""
    of: int | None = None
    """Of a column that is not shown: the index of the column of the view whose values it has in that stage."""
    unlike: str | None = None
    """With `of`: why the view cannot show values that its column's type does not have."""
    is_castable: bool = False
    """With `unlike`: whether a value is the same in the column's type if a cast back gives it again."""


class ViewSource(Struct, frozen=True):
    """The data of which both views of a table are made.

    A stage is a series of versions in which rows with different keys stay different. It ends with an ALTER that may
    make keys equal, or that makes other columns the key: the rows that are there then have different keys before and
    after, and begin the next stage. Without a key, rows with different values stay different, and there may be several
    equal rows.
    """

    columns: tuple[ViewColumn, ...]
    relations: tuple[tuple[str, exp.Expr], ...]
    """The change tables, by the names that branches use."""
    branches: tuple[Branch, ...]
    known: tuple[tuple[str, tuple[int, ...]], ...]
    """For a change table, all versions that the view knows, including those of other tables with its name and those
    whose rows have been removed. Rows of any other version are an error."""
    removed_until: int
    """Ordinal of the last transaction that removed all rows."""
    message: str
    """The error message if there are rows of a version that is newer than the view."""
    without_key: frozenset[int] = frozenset()
    """The stages whose rows no key identifies."""
    of_one_row: frozenset[int] = frozenset()
    """The stages in which the table is a sequence: it has one row, and each insert replaces it."""
    follows: frozenset[int] = frozenset()
    """The stages in which rows are followed through changes of their keys whose images lack the rest of the row."""

    @property
    def stages(self) -> int:
        """The number of stages."""
        return 1 + max((column.stage for column in self.columns), default=0)
