"""What a reader requests of a group: it is known before anything is opened.
Not here: where each source begins and ends (`bounds.py`), reading (`reading.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.config.settings import Group, Source
    from strata_cdc.groups.limits import GroupLimits


class GroupRequest(Struct, frozen=True):
    """What a reader requests."""

    group: Group
    sources: Mapping[str, Source]
    """All sources that may be read, by name."""
    follow: bool
    """Whether to wait for new changes."""
    tables: Sequence[str]
    """Patterns of `database.table`; empty for all tables."""
    columns: Sequence[str] | None
    """Names of the wanted columns; None for all."""
    heartbeat_seconds: float
    """If nothing comes for this time, a heartbeat with the position is yielded, and the servers of silent sources are
    queried."""
    limits: GroupLimits
    permit: AbstractContextManager[object]
    """As `ChangeStream` takes it; the streams of the sources share it."""

    @property
    def of_sources(self) -> dict[str, Any]:
        """Returns the arguments that the streams of all sources have in common, as `ChangeStream` takes them."""
        return {
            "follow": self.follow,
            **_with_copies(self.tables, self.columns, self.group.source_gtid_column),
            # A silent source is queried twice per heartbeat of a second, so that the watermark follows within one
            # heartbeat. Streams check the time every half second, and with half a heartbeat they would be late for
            # every second query.
            "heartbeat_seconds": self.heartbeat_seconds / 4,
            "limits": self.limits.decode,
            "permit": self.permit,
        }


def _with_copies(tables: Sequence[str], columns: Sequence[str] | None, column: str | None) -> dict[str, Any]:
    """What is read of the sources so that copies can be detected: what the reader wants, and the column of the
    copiers."""
    if column is None:
        return {"tables": tables, "columns": columns}
    table, _, name = column.rpartition(".")
    return {
        "tables": [*tables, table] if tables else tables,
        "columns": None if columns is None else [*columns, name],
    }
