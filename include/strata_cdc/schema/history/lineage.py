"""One table through all its names: a history with RENAME, and online changes, which swap a copy in.
Not here: single versions (`historian.py`), what is shown of them (`schema/answers/`)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.swaps import names_beside, tool_of
from strata_cdc.schema.history.versions import EVERY_TABLE
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry

Part = tuple[int, TableName]
"""A version's id and a name in it."""


class OnlineChange(Struct, frozen=True):
    """A change that a tool made on a copy of the table, which was then swapped in."""

    tool: str
    copy: TableName
    statements: tuple[str, ...]
    """The statements on the copy."""
    parts: frozenset[Part]
    """Entries that are not separate changes: those of the copy, and those of the old table under its later name."""


def lineage(store: SchemaStore, source: str, table: TableName) -> list[StoredEntry]:
    """All entries of a name in stream order, and those of its tables under the names that they had before.
    Other tables that had one of those names are not included."""
    entries = store.timeline(source, {table, EVERY_TABLE})
    own = [entry for entry in entries if entry.name == table]
    seen = {(entry.version_id, entry.name) for entry in own}
    for at, entry in enumerate(own):
        moved = entry if _came_alone(own, at) else None
        while moved is not None and moved.renamed_from is not None:
            earlier = _last_table(store, source, moved.renamed_from, moved)
            entries += [entry for entry in earlier if (entry.version_id, entry.name) not in seen]
            seen |= {(entry.version_id, entry.name) for entry in earlier}
            moved = earlier[0] if earlier and _came_alone(earlier, 0) else None
    return sorted(entries, key=lambda entry: entry.order)


def _last_table(store: SchemaStore, source: str, name: TableName, moved: StoredEntry) -> list[StoredEntry]:
    """The entries of a name, from the time when it got the table that leaves it in a version."""
    own = [entry for entry in store.timeline(source, {name}) if entry.order[:3] < moved.order[:3]]
    begins = [at for at in range(len(own)) if at == 0 or _came_alone(own, at) or _is_gone(own[at - 1])]
    return own[begins[-1] :] if begins else []


def _is_gone(entry: StoredEntry) -> bool:
    return entry.fingerprint is None and entry.gap is None


def _came_alone(own: Sequence[StoredEntry], at: int) -> bool:
    """Whether a table got a name that was free; if the name was used, both tables have exchanged names."""
    return own[at].renamed_from is not None and not (at and own[at - 1].fingerprint)


def online_changes(store: SchemaStore, source: str, entries: Iterable[StoredEntry]) -> dict[Part, OnlineChange]:
    """The swaps of gh-ost and pt-online-schema-change among entries, by the entry of the table that was changed."""
    swaps = {(e.version_id, e.name): tool for e in entries if (tool := tool_of(e))}
    if not swaps:
        return {}
    names = {name for _, name in swaps}
    copies = {copy_name for name in names for copy_name in names_beside(name)}
    timelines: dict[TableName, list[StoredEntry]] = defaultdict(list)
    for entry in store.timeline(source, names | copies):
        timelines[entry.name].append(entry)
    changes = {}
    for (version_id, name), tool in swaps.items():
        swap = next(e for e in timelines[name] if e.version_id == version_id)
        gone = next((e for beside in names_beside(name) for e in timelines[beside] if _left(e, swap)), None)
        if gone is not None and swap.renamed_from is not None:
            changes[version_id, name] = _online_change(store, tool, swap, swap.renamed_from, gone, timelines)
    return changes


def _left(entry: StoredEntry, swap: StoredEntry) -> bool:
    return entry.version_id == swap.version_id and entry.renamed_from == swap.name


def _online_change(
    store: SchemaStore,
    tool: str,
    swap: StoredEntry,
    copy: TableName,
    gone: StoredEntry,
    timelines: dict[TableName, list[StoredEntry]],
) -> OnlineChange:
    lifetime: list[StoredEntry] = []
    for entry in timelines[copy]:
        if entry.order > swap.order:
            break
        # A copy of an earlier change was dropped or swapped away.
        lifetime = [entry] if not lifetime or not lifetime[-1].fingerprint else [*lifetime, entry]
    dropped = next((e for e in timelines[gone.name] if e.order > gone.order), None)
    statements = store.ddls(e.version_id for e in lifetime[1:] if e.version_id != swap.version_id)
    parts = {(e.version_id, e.name) for e in (*lifetime, gone)}
    parts |= {(e.version_id, e.name) for e in timelines[copy] if e.version_id == swap.version_id}
    if dropped is not None and not dropped.fingerprint:
        parts.add((dropped.version_id, dropped.name))
    return OnlineChange(tool, copy, tuple(statements[number] for number in sorted(statements)), frozenset(parts))
