"""The schema versions of a sink's stream: those of the store, then those of what has landed and is not tracked yet.
Not here: making them (`tracking/track_sink.py`), where untracked ones are kept (`untracked_ddl.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.changes.port import TableVersion
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.streams.untracked_ddl import UntrackedVersions, shown_id
from strata_cdc.tracking.track_sink import SinkTracker

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.model.definition import TableName


class SinkVersions:
    """The versions of one sink, as far as it has landed. The store is never written."""

    def __init__(self, engine: sa.Engine, source: str) -> None:
        """Continues where the store ends."""
        self._source = source
        self._store = UntrackedVersions(SchemaStore(engine), source)
        self._tracker = SinkTracker(self._store, source)
        self._history = History(self._store, source, self._tracker.position)

    @property
    def folds_names(self) -> bool:
        """Whether names of any case are the same."""
        return self._tracker.position.lower_case_table_names != 0

    def track(self, landed: LandedStream) -> None:
        """Takes what has landed; skips what had been tracked before. Raises as `track_sink`."""
        before = self._tracker.position
        self._tracker.track_all(landed)
        if self._tracker.position is not before:
            # A historian keeps what it has read, so a new one is needed.
            self._history = History(self._store, self._source, self._tracker.position)

    def lookup(self, table: TableName, seq: int) -> TableVersion:
        """Returns the version of a table for the rows of a commit.

        Raises:
            SchemaGapError: It is not known.
        """
        version = self._history.at(table, AtSeq(seq))
        return TableVersion(shown_id(version.version_id), version.definition)

    def made_between(self, first_seq: int, last_seq: int) -> dict[tuple[int, int], int]:
        """Returns the versions that the statements of consecutive commits made, by ordinal and number in the commit."""
        made = self._store.statement_versions(first_seq, last_seq)
        return {(seq, number): shown_id(version) for seq, number, version in made}
