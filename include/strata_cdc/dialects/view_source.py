"""What the views of a table are made of: where the rows of each version have the value of each column.
Not here: the views (`views.py`, `history.py`), what a table's are (`views/`)."""

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
    """Fractions of seconds were cut, not rounded."""
    time_zone: str | None = None
    """Of the session, where it matters."""
    numbers_zeros: bool = True
    """A column that became AUTO_INCREMENT got numbers for its zeros, too."""

    @property
    def shown(self) -> str:
        """In words."""
        return f"{self.before.name} was {self.before.column_type}, and is {self.after.column_type}"


class MadeValues(Struct, frozen=True):
    """What conversions made of values of which SQL does not say it: a finite mapping."""

    name: str
    """Of the query that has them: no column's name begins with it."""
    before: pa.Array
    """As rows have them; each once, none NULL."""
    after: pa.Array
    """What each is by now; none NULL."""


class ColumnSource(Struct, frozen=True):
    """Where rows of some versions have the value of a column."""

    physical: tuple[str, ...] = ()
    """Columns of the change table of which at most one has a value; none for a literal."""
    is_cast: bool = False
    """Whether they have other types than the column has now."""
    missing: str = ""
    """What the column is called in `_missing` and `_invalid`."""
    literal: pa.Scalar | None = None
    """Of the column's type; None for NULL."""
    lacking: ColumnSource | None = None
    """What an INSERT that does not name the column gives it."""
    unknown: str | None = None
    """Why the log does not tell the value."""
    kind: pa.DataType | None = None
    """Type of the values there, where they went through `steps`."""
    steps: tuple[TypeChange, ...] = ()
    """What became of the values since, in order."""
    made: MadeValues | None = None
    """What they made of the values of which SQL does not say it."""
    loses_texts: bool = False
    """Whether nobody knows what `steps` made of a value that `_invalid` tells from others."""
    of_null: ColumnSource | None = None
    """What became of NULL; None: it still is."""
    empty_text: str | None = None
    """What `_invalid` would have of an empty text if the type then had had a label that is one; None: what it has."""


class Branch(Struct, frozen=True):
    """Rows of some versions in one change table."""

    relation: str
    versions: tuple[int, ...]
    places: tuple[ColumnSource, ...]


class ViewColumn(Struct, frozen=True):
    """A column of the view."""

    name: str
    """In MySQL's table, and in the view of now."""
    published: str
    """In change tables, and in the view of all changes: other than our own columns there."""
    kind: pa.DataType
    is_key: bool = False
    is_document: bool = False
    """JSON: the log may have only what changed in it."""
    has_texts: bool = False
    """Whether `_invalid` may have to tell its values apart."""
    is_zero: bool = False
    """Whether a row that was given nothing for it has the zero date."""
    labelled: str = ""
    """`enum` or `set` for a column of labels."""


class ViewSource(Struct, frozen=True):
    """What both views of a table are made of."""

    columns: tuple[ViewColumn, ...]
    relations: tuple[tuple[str, exp.Expr], ...]
    """Change tables, by the names that branches have for them."""
    branches: tuple[Branch, ...]
    known: tuple[tuple[str, tuple[int, ...]], ...]
    """Of each change table, the versions that are not this table's, or whose rows have been removed."""
    removed_until: int
    """Ordinal of the last transaction that removed all rows."""
    message: str
    """What is said when there are rows of a version that is newer than the view."""
