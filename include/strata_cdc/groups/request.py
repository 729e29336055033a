"""What a reader requests of a group: it is known before anything is opened.
Not here: where each source begins and ends (`bounds.py`), reading (`reading.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.groups.limits import GroupLimits
    from strata_cdc.streams.request import StreamedSource


class StreamedGroup(Protocol):
    """What a stream must know about a group; a group of the settings has all this."""

    @property
    def name(self) -> str:
        """Name of the group."""

    @property
    def sources(self) -> Sequence[StreamedSource]:
        """Sources of the group."""

    @property
    def max_skew(self) -> int:
        """How much further than the slowest source a source may be read (microseconds)."""

    @property
    def clock_bound(self) -> int:
        """The steps in which clocks are corrected (microseconds)."""

    @property
    def journal(self) -> str | None:
        """Path of the file with its switchovers."""

    @property
    def source_gtid_column(self) -> str | None:
        """The column in which copiers keep the position of what they copy: `database.table.column`."""

    @property
    def former(self) -> Sequence[StreamedSource]:
        """Sources that the group may leave in switchovers."""


class GroupRequest(Struct, frozen=True):
    """What a reader requests."""

    group: StreamedGroup
    sources: Mapping[str, StreamedSource]
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
