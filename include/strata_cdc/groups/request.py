"""What a reader asks of a group: known before anything is opened.
Not here: where each source begins and ends (`starts.py`), reading (`opened.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.groups.limits import GroupLimits
    from strata_cdc.groups.path import Path
    from strata_cdc.groups.starts import Starts
    from strata_cdc.streams.request import StreamedSource


class StreamedGroup(Protocol):
    """What is to be known of a group; one of the settings is such."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def sources(self) -> Sequence[StreamedSource]:
        """Its sources."""

    @property
    def max_skew(self) -> int:
        """How far one source is read ahead of the slowest (microseconds)."""

    @property
    def clock_bound(self) -> int:
        """In what steps clocks are corrected (microseconds)."""

    @property
    def journal(self) -> str | None:
        """Path of the file with its hops."""

    @property
    def source_gtid_column(self) -> str | None:
        """Where copiers keep the position of what they copy: `database.table.column`."""

    @property
    def former(self) -> Sequence[StreamedSource]:
        """Sources that hops may leave."""


class GroupRequest(Struct, frozen=True):
    """What a reader asks for."""

    group: StreamedGroup
    sources: Mapping[str, StreamedSource]
    """All that may be read, by name."""
    path: Path
    """Over the hops between them; goes on with what is read."""
    starts: Starts
    """Where each of them begins and ends."""
    follow: bool
    """Whether to wait for what comes."""
    tables: Sequence[str]
    """Patterns of `database.table`; none for all."""
    columns: Sequence[str] | None
    """Names; None for all."""
    heartbeat_seconds: float
    """After so long without anything the position is given, and silent sources are asked."""
    limits: GroupLimits
    permit: AbstractContextManager[object]
    """The streams of the sources share it, as `ChangeStream` takes it."""

    @property
    def of_sources(self) -> dict[str, Any]:
        """What the streams of all sources have in common, as `ChangeStream` takes it."""
        return {
            "follow": self.follow,
            **_with_copies(self.tables, self.columns, self.group.source_gtid_column),
            # A silent source is asked twice in a heartbeat of a second, so that the watermark follows within one:
            # streams look up each half second, and with half a heartbeat would be late for every other.
            "heartbeat_seconds": self.heartbeat_seconds / 4,
            "limits": self.limits.decode,
            "permit": self.permit,
        }


def _with_copies(tables: Sequence[str], columns: Sequence[str] | None, column: str | None) -> dict[str, Any]:
    """What is read of the sources, so that copies can be told: what somebody wants, and where copiers say so."""
    if column is None:
        return {"tables": tables, "columns": columns}
    table, _, name = column.rpartition(".")
    return {
        "tables": [*tables, table] if tables else tables,
        "columns": None if columns is None else [*columns, name],
    }
