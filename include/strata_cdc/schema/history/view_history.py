"""The views of a source at each position of its stream, from what the store has of them.
Not here: what their texts mean (`dialects/queries/`), reading their rows (`entry_rows.py`), tables (`historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.versions import EVERY_TABLE, NamePresence, ViewEntry, every_table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.history.versions import StoredEntry, StoredView
    from strata_cdc.schema.model.definition import TableName


def present_views(views: Iterable[StoredView], database: str) -> list[ViewEntry]:
    """The views of a database that exist after all of these entries, which are in stream order."""
    newest = {view.name: view.entry for view in views if view.name.database == database}
    return [entry for entry in newest.values() if entry.presence is NamePresence.PRESENT]


class ViewHistory:
    """The views of a source.

    Args:
        views: Every entry of a view.
        entries: Every entry of a table: gaps in the schema are gaps for views, too.
    """

    def __init__(self, views: Iterable[StoredView], entries: Iterable[StoredEntry]) -> None:
        self._views: dict[TableName, list[StoredView]] = {}
        for view in views:
            self._views.setdefault(view.name, []).append(view)
        self._gaps = [entry for entry in entries if not entry.name.table and entry.gap is not None]

    def find(self, name: TableName, seq: int | None = None) -> ViewEntry | None:
        """What is known of a view; None if no entry says that it exists.

        Args:
            name: Of the view.
            seq: Ordinal of the last transaction; None: after all of them.
        """
        entries = [view for view in self._views.get(name, ()) if seq is None or _last(view) <= seq]
        if not entries or entries[-1].entry.presence is not NamePresence.PRESENT:
            return None
        newest = entries[-1]
        names = {EVERY_TABLE, every_table_of(name.database)}
        gaps = (gap for gap in self._gaps if gap.name in names and (seq is None or _last(gap) <= seq))
        if any((gap.seq, gap.statement_no, gap.version_id) > newest.order for gap in gaps):
            return ViewEntry(name, NamePresence.UNKNOWN)
        return newest.entry


def _last(entry: StoredView | StoredEntry) -> int:
    """Ordinal of the last transaction once an entry is valid."""
    return entry.seq if entry.is_statement else entry.seq - 1
