"""The tables that gh-ost and pt-online-schema-change make for a change of a table, and the proof that they made them.
Not here: the changes (`lineage.py`), whether the copies' rows are published (`pipeline/plan/excluded.py`).

Names alone prove nothing: a job may load `_t_new` every night and swap it in, and its rows are nowhere else.
The copy that was swapped in is needed too: its rows are the table's rows from then on, and a program that combines all
rows of a table needs them. Nobody needs the table that was swapped away, or a tool's notes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry

_GH_OST: Final = re.compile(r"_(.+?)(?:_[0-9]{14})?_(gho|ghc|del)")
"""With --timestamp-old-table, the name of the table that is swapped away contains the time (go/base/context.go)."""
_PT: Final = re.compile(r"_(.+)_(new|old)")
"""The tool adds up to ten underscores at the start while a name is used (bin/pt-online-schema-change,
`create_new_table`)."""
_LONGEST: Final = 64
"""Maximum number of characters of a name; gh-ost cuts the table's name to make its own names."""
_COPIES: Final = ("_gho", "_new")


class NameLifetime(Struct, frozen=True):
    """A table of a name, from the statement that made it to the statement that ended it."""

    name: TableName
    entries: tuple[StoredEntry, ...]
    end: StoredEntry | None
    """None while the table exists."""

    @property
    def first_seq(self) -> int:
        """The ordinal of the transaction that made it."""
        return self.entries[0].seq

    def overlaps(self, after_seq: int, last_seq: int | None) -> bool:
        """Whether it existed in some transaction with after_seq < seq <= last_seq; None for no end."""
        begins = last_seq is None or self.first_seq <= last_seq
        return begins and (self.end is None or self.end.seq > after_seq)


class NamedCopies(Struct, frozen=True):
    """The lifetimes of names like those of the tools: tables that were swapped away, and tables without that proof."""

    copies: dict[TableName, list[NameLifetime]]
    others: dict[TableName, list[NameLifetime]]

    def holds_all(self, name: TableName, after_seq: int, last_seq: int) -> bool:
        """Whether all tables of a name between two ordinals are copies; False if the name had no table there."""

        def there(lifetimes: Collection[NameLifetime]) -> bool:
            return any(lifetime.overlaps(after_seq, last_seq) for lifetime in lifetimes)

        return there(self.copies.get(name, ())) and not there(self.others.get(name, ()))


def bases_of(name: TableName, known: Collection[TableName]) -> list[TableName]:
    """The tables for which a tool could use this name; only tables that are known."""
    table_names: list[TableName] = []
    for pattern in (_GH_OST, _PT):
        match = pattern.fullmatch(name.table)
        base = match[1] if match else ""
        # A table's own name may also begin with underscores.
        names = {base[count:] for count in range(len(base) - len(base.lstrip("_")) + 1)} if base else set()
        table_names += [
            table for table_name in sorted(names) if (table := TableName(name.database, table_name)) in known
        ]
        if match and pattern is _GH_OST and len(name.table) == _LONGEST:
            table_names += [
                known_name
                for known_name in sorted(known)
                if known_name.database == name.database and known_name.table.startswith(base)
            ]
    return list(dict.fromkeys(table_name for table_name in table_names if table_name != name))


def find_copies(store: SchemaStore, source: str, is_empty: Callable[[TableName, int, int], bool]) -> NamedCopies:
    """The tables that all swaps in a source's history swapped away, with the tables of gh-ost.

    A copy of pt-online-schema-change counts as proved only if it was altered before it had any row.

    Args:
        is_empty: Whether a table has no rows between two ordinals (after the first, up to the second); False if that is
            not known.
    """
    # Both tools begin the names of their copies with it; most sources have thousands of tables, and no such table.
    if not store.tables(source, first_letter="_", most=1):
        return NamedCopies({}, {})
    known = frozenset(store.tables(source))
    bases = {name: names for name in known if (names := bases_of(name, known))}
    if not bases:
        return NamedCopies({}, {})
    entries = store.timeline(source, {*bases, *(base for names in bases.values() for base in names)})
    by_name: dict[TableName, list[StoredEntry]] = defaultdict(list)
    for entry in entries:
        by_name[entry.name].append(entry)
    lifetimes_by_name = {name: _lifetimes(name, by_name[name]) for name in bases}
    proved = {
        (lifetime.name, lifetime.first_seq)
        for name, copied in lifetimes_by_name.items()
        if name.table.endswith(_COPIES)
        for copy in copied
        for base in bases[name]
        for lifetime in _of_swap(copy, base, by_name[base], bases, lifetimes_by_name, is_empty)
    }

    def chosen(*, is_copy: bool) -> dict[TableName, list[NameLifetime]]:
        return {
            name: [lifetime for lifetime in lifetimes if ((name, lifetime.first_seq) in proved) is is_copy]
            for name, lifetimes in lifetimes_by_name.items()
        }

    return NamedCopies(chosen(is_copy=True), chosen(is_copy=False))


def _lifetimes(name: TableName, entries: Iterable[StoredEntry]) -> list[NameLifetime]:
    lifetimes: list[NameLifetime] = []
    own: list[StoredEntry] = []
    for entry in entries:
        is_there = entry.fingerprint is not None or entry.gap is not None
        if own and (not is_there or entry.renamed_from):
            lifetimes.append(NameLifetime(name, tuple(own), entry))
            own = []
        if is_there:
            own.append(entry)
    return [*lifetimes, NameLifetime(name, tuple(own), None)] if own else lifetimes


def _of_swap(
    copy: NameLifetime,
    base: TableName,
    history: Sequence[StoredEntry],
    bases: dict[TableName, list[TableName]],
    lifetimes_by_name: dict[TableName, list[NameLifetime]],
    is_empty: Callable[[TableName, int, int], bool],
) -> list[NameLifetime]:
    """The former table, and gh-ost's own tables, if the copy replaced the table at its end."""
    end = copy.end
    if end is None or not any(e.version_id == end.version_id and e.renamed_from == copy.name for e in history):
        return []
    beside = [
        lifetime for name, lifetimes in lifetimes_by_name.items() if base in bases[name] for lifetime in lifetimes
    ]
    gone = [lifetime for lifetime in beside if _begins_as(lifetime, end, base)]
    if not gone or (copy.name.table.endswith("_new") and not _altered_first(copy, is_empty)):
        return []
    if copy.name.table.endswith("_new"):
        return gone
    own = ("_ghc", "_del")
    helpers = [
        lifetime
        for lifetime in beside
        if lifetime.name.table.endswith(own) and lifetime.overlaps(copy.first_seq - 1, end.seq)
    ]
    return [*gone, *helpers]


def _begins_as(lifetime: NameLifetime, swap: StoredEntry, base: TableName) -> bool:
    first = lifetime.entries[0]
    return first.version_id == swap.version_id and first.renamed_from == base


def _altered_first(copy: NameLifetime, is_empty: Callable[[TableName, int, int], bool]) -> bool:
    """Whether the stream has the copy's creation, and an ALTER of it before its rows."""
    if len(copy.entries) < 2 or copy.entries[0].origin is not VersionOrigin.DDL:
        return False
    made, altered = copy.entries[0], copy.entries[1]
    return altered.is_statement and is_empty(copy.name, made.seq - 1, altered.seq)
