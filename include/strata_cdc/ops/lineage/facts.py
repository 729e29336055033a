"""What is reported of lineage, as values: tables, columns, findings. Light: code that sends them loads nothing of the
lake.
Not here: finding them (`describe.py`, `versions.py`), their form in OpenLineage (`airflow/lineage_facets.py`)."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from strata_cdc.schema.model.definition import TableName  # noqa: TC001  the fields of values

CameFrom = dict[str, tuple[str, ...]]
"""Column -> the columns that its values come from."""


class Field(Struct, frozen=True):
    """A column, as a catalogue shows it."""

    name: str
    type: str
    comment: str = ""


class CheckFact(Struct, frozen=True):
    """One check of a table. No value of a row is in it."""

    check: str
    column: str | None
    holds: bool
    severity: str
    because: str
    rows: int | None = None
    """That break it; None where it is not known."""


class TableFacts(Struct, frozen=True):
    """What a run read of one table, and published of it."""

    table: TableName
    columns: tuple[Field, ...]
    """On the server, by the newest version that decoded rows; none if no rows were decoded."""
    versions: tuple[int, ...]
    """Schema versions that decoded them."""
    gtid_executed: str
    """What the stream had executed at the end of the run's last interval."""
    rows: int
    """That are published."""
    url: str
    """The change table."""
    delta_version: int | None
    """None: nothing of it was published."""
    fields: tuple[Field, ...]
    """Of the change table."""
    came_from: CameFrom
    findings: tuple[CheckFact, ...]


class MirrorPart(Struct, frozen=True):
    """A mirror that changed."""

    table: TableName
    url: str
    delta_version: int
    fields: tuple[Field, ...]
    changes_url: str
    """The change table that it follows."""
    came_from: CameFrom
    """Columns of the change table."""
    came_from_server: CameFrom
    """Columns of the server's table, of one that was dumped."""


class LifecycleChange(StrEnum):
    """What a statement did to a table."""

    CREATE = "CREATE"
    ALTER = "ALTER"
    RENAME = "RENAME"
    DROP = "DROP"
    TRUNCATE = "TRUNCATE"
    """All rows are gone; the table is as it was."""


class MadeVersion(Struct, frozen=True):
    """A table as one version has it, or one that was emptied."""

    version: int
    """0 of what makes none."""
    table: TableName
    columns: tuple[Field, ...]
    """None of a table that is gone, or was emptied."""
    change: LifecycleChange | None
    """None where no statement made the version: a snapshot found the table."""
    former: TableName | None
    """What it was called before."""
    gtid_executed: str
