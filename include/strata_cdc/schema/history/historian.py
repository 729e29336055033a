"""The historian: the definition of a table at a position of its source's stream. Exact, or a refusal; never "latest".
Not here: reading the store (`sql_store.py`), replaying DDL (`schema/tracker/track.py`)."""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import SchemaGapError, UnknownSourceError
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.sets import Gtid
from strata_cdc.schema.history.neighbours import find_neighbours
from strata_cdc.schema.history.shell_words import table_word
from strata_cdc.schema.history.stream_positions import AtBinlog, AtGtidSet, AtSeq, AtTime, StreamPosition
from strata_cdc.schema.history.versions import (
    EVERY_TABLE,
    Before,
    SchemaVersion,
    VersionOrigin,
    every_table_of,
    grouped_by_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.neighbours import Neighbour
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry, TrackedFile, TrackedPosition
    from strata_cdc.schema.model.definition import TableName


# Which entry of each table is valid at the end of the stream, without reading all entries before it.
def certain_entries(
    newest: Iterable[StoredEntry], wide: Sequence[StoredEntry], seq: int
) -> dict[TableName, StoredEntry]:
    """The tables whose entry of the newest version is the last one of their timelines.

    Statements are stored in the order of the stream, and only corrections are stored later than what follows them. So
    nothing comes after an entry that a statement made and that no later version overrides.

    Args:
        newest: For each name, its entry of the newest version.
        wide: All entries about all tables of a database, or of the source.
        seq: Ordinal of the last transaction of the stream.
    """
    last = max((entry.order for entry in wide), default=None)
    return {
        entry.name: entry
        for entry in newest
        if entry.name.table
        and entry.origin is VersionOrigin.DDL
        and entry.is_statement
        and entry.seq <= seq
        and (last is None or entry.order > last)
    }


_DDL_IN_MESSAGE: Final = 500
_END_OF_TRANSACTION: Final = 1 << 31


class Gap(Struct, frozen=True):
    """A table whose definition is not known at a position, as a value for lists; `History.at` raises an error
    instead."""

    reason: str
    entry: StoredEntry | None = None


class _Timeline:
    """Entries of one name, including those about all tables, in stream order."""

    def __init__(self, entries: list[StoredEntry]) -> None:
        self.entries = entries
        self.seqs = [entry.seq for entry in entries]


class History:
    """Answers for one source, as far as its stream had been tracked at the time of the first question.

    It keeps what it has read: only a new object sees what has been tracked since then.
    """

    def __init__(
        self,
        store: VersionStore,
        source: str,
        tracked: TrackedPosition | None = None,
        *,
        gap_remedy: str | None = None,
    ) -> None:
        """Begins without having read anything.

        Args:
            tracked: How far the stream is known; None: as far as the store has it.
            gap_remedy: What to do about a table that is not known, where there is no source that has commands.
        """
        self._gap_remedy = gap_remedy
        self._store = store
        self._source = source
        self._timelines: dict[TableName, _Timeline] = {}
        self._versions: dict[tuple[int, TableName], SchemaVersion] = {}
        self._tracked = tracked
        self._files: dict[str, list[TrackedFile]] = {}
        self._gtids: dict[str, Gtid] = {}
        self._sets: dict[str, Executed] = {}

    @property
    def tracked(self) -> TrackedPosition:
        """The position up to which the stream is known.

        Raises:
            UnknownSourceError: The source has never been tracked.
        """
        if self._tracked is None:
            self._tracked = self._store.position(self._source)
        if self._tracked is None:
            known = ", ".join(self._store.sources()) or "none"
            raise UnknownSourceError(
                f"the store knows no source {self._source!r}; it has: {known}",
                source=self._source,
                remedy=f"Run `strata track FILES --source {self._source} --store URL`.",
            )
        return self._tracked

    def known_to(self, tracked: TrackedPosition) -> History:
        """The same history, with what it has read, if the stream is known up to a later position and no version has
        come since."""
        later = copy(self)
        later._tracked = tracked  # noqa: SLF001  of the same class
        return later

    def at(self, table: TableName, position: StreamPosition) -> SchemaVersion:
        """The version of a table that is valid at a position.

        Raises:
            SchemaGapError: The table does not exist there, its definition is not known there, the position is ambiguous
                between versions, or the stream has not been tracked that far.
            UnknownSourceError: The source has never been tracked.
        """
        timeline = self._timeline(table)
        entry = self._newest(timeline, position, table)
        if entry is None:
            raise self._refusal(f"the history of the stream starts after {position}", table)
        if entry.gap is not None:
            raise self._gap_error(table, entry, position)
        if entry.fingerprint is None:
            raise self._absent(table, entry, position)
        return self._version(table, entry, entry.fingerprint)

    def lasts(self, table: TableName, seq: int) -> int:
        """The last tracked transaction at which `at` gives the version that is valid at `seq`.

        Raises:
            UnknownSourceError: The source has never been tracked.
        """
        seqs = self._timeline(table).seqs
        following = bisect_right(seqs, seq)
        return seqs[following] - 1 if following < len(seqs) else max(seq, self.tracked.seq)

    def neighbours(self, table: TableName, version_id: int) -> tuple[Neighbour, ...]:
        """The versions of a table before and after a valid one, with other columns."""
        return find_neighbours(table, self._timeline(table).entries, version_id, self._store.definition)

    def after(self, table: TableName, seq: int) -> SchemaVersion:
        """The version that is valid after a transaction, for callers that read the table itself: a snapshot at the end
        of the stream is stored at a position before the next transaction.

        Raises:
            SchemaGapError, UnknownSourceError: As `at`.
        """
        position = AtSeq(seq)
        self._check_reach(position, table)
        entries = self._timeline(table).entries
        newest = next((entry for entry in reversed(entries) if (entry.seq, entry.statement_no) <= (seq + 1, 0)), None)
        if newest is None or newest.gap is not None or newest.fingerprint is None:
            return self.at(table, position)
        return self._version(table, newest, newest.fingerprint)

    def tables(self, position: StreamPosition) -> Iterator[tuple[TableName, SchemaVersion | Gap]]:
        """All tables at a position in order of name: with their version, or with the reason why it is not known.

        The last item is `EVERY_TABLE` with a gap, if there may be tables that no version names.

        Raises:
            SchemaGapError: The stream has not been tracked that far, or the position is ambiguous between versions.
        """
        self._check_reach(position, None)
        chosen = list(self._entries_at(position))
        self._store.load_definitions(e.fingerprint for _, e in chosen if e.fingerprint and not e.gap)
        for name, entry in sorted(chosen):
            if entry.gap is not None:
                yield name, Gap(entry.gap, entry)
            elif entry.fingerprint is not None:
                yield name, self._version(name, entry, entry.fingerprint)
        yield from self._gap_of_all(position)

    def names(self, position: StreamPosition) -> Iterator[tuple[TableName, Gap | None]]:
        """As `tables`, for callers that need no definitions: None instead of a version.

        Raises:
            SchemaGapError: As `tables`.
        """
        self._check_reach(position, None)
        for name, entry in sorted(self._entries_at(position)):
            yield name, None if entry.gap is None else Gap(entry.gap, entry)
        yield from self._gap_of_all(position)

    def _gap_of_all(self, position: StreamPosition) -> Iterator[tuple[TableName, Gap]]:
        everything = self._newest(self._timeline(EVERY_TABLE), position, EVERY_TABLE)
        if everything is None:
            yield EVERY_TABLE, Gap(f"the history of the stream starts after {position}")
        elif everything.gap is not None:
            yield EVERY_TABLE, Gap(everything.gap, everything)

    def _entries_at(self, position: StreamPosition) -> Iterator[tuple[TableName, StoredEntry]]:
        """The entry that is valid at a position, for each table that exists or may exist."""
        if isinstance(position, AtSeq) and position.seq == self.tracked.seq:
            newest = self._store.newest_entries(self._source)
            wide = self._store.timeline(self._source, {name for entry in newest for name in _wider_than(entry.name)})
            certain = certain_entries(newest, wide, position.seq)
            yield from ((name, entry) for name, entry in certain.items() if entry.fingerprint or entry.gap)
            others = {entry.name for entry in newest} - certain.keys()
            entries = self._store.timeline(self._source, others) if others else []
            yield from self._chosen([*wide, *(entry for entry in entries if entry.name.table)], position)
        else:
            yield from self._chosen(self._store.all_entries(self._source), position)

    def _chosen(
        self, entries: Iterable[StoredEntry], position: StreamPosition
    ) -> Iterator[tuple[TableName, StoredEntry]]:
        for name, timeline in _timelines(entries):
            entry = self._newest(timeline, position, name)
            if not name.table or entry is None or (entry.fingerprint is None and entry.gap is None):
                continue
            if not _is_made_later(name, entry, timeline):
                yield name, entry

    def executed_at(self, position: StreamPosition) -> str:
        """The newest GTID set known to have been executed at a position: that of the last DDL or end of file before it.

        For a GTID set it is the set itself.
        """
        if isinstance(position, AtGtidSet):
            return str(position.gtid_set)
        later = [file for file in self._store.files(self._source) if self._is_after(file, position)]
        known = [((file.last_seq, _END_OF_TRANSACTION), file.gtid_executed) for file in later]
        version = self._store.newest_position(self._source, self._places_before(position))
        if version is not None:
            known.append(((version.seq, version.statement_no), version.gtid_executed))
        return max(known, default=((0, 0), ""))[1]

    def _places_before(self, position: StreamPosition) -> Before:
        """The condition for versions before a position, like `_applies` for entries."""
        if isinstance(position, AtSeq):
            return Before(seq=position.seq)
        if isinstance(position, AtTime):
            return Before(committed_at=position.time)
        if isinstance(position, AtGtidSet):
            return Before()
        parts = self._parts_with(position.position)
        return Before(
            first_seq=parts[0].first_seq,
            last_seq=max(part.last_seq for part in parts),
            binlog_file=position.position.file,
            binlog_pos=position.position.offset,
        )

    # Choosing -----------------------------------------------------------------------------------

    def _newest(self, timeline: _Timeline, position: StreamPosition, table: TableName) -> StoredEntry | None:
        self._check_reach(position, table)
        if isinstance(position, AtSeq):
            count = bisect_right(timeline.seqs, position.seq)
            return timeline.entries[count - 1] if count else None
        applies = self._applies(position)
        flags = [applies(entry) for entry in timeline.entries]
        count = sum(flags)
        if not all(flags[:count]):
            raise self._ambiguous(timeline.entries, flags, position, table)
        return timeline.entries[count - 1] if count else None

    def _applies(self, position: StreamPosition) -> Callable[[StoredEntry], bool]:
        """A function that decides whether an entry is before a position."""
        if isinstance(position, AtSeq):
            return lambda entry: entry.seq <= position.seq
        if isinstance(position, AtTime):
            return lambda entry: entry.committed_at < position.time
        if isinstance(position, AtGtidSet):
            return lambda entry: self._is_in(entry, position.gtid_set)
        parts = self._parts_with(position.position)
        first, last, offset = parts[0].first_seq, parts[-1].last_seq, position.position.offset
        return lambda entry: (
            entry.seq < first
            or (entry.seq <= max(last, first) and entry.binlog_pos is not None and entry.binlog_pos < offset)
        )

    def _is_in(self, entry: StoredEntry, executed: Executed) -> bool:
        if entry.gtid is not None:
            return executed.contains(self._gtid(entry.gtid))
        if entry.missing:
            # Any missing transaction of the hole may have been a DDL.
            return bool(executed & self._set(entry.missing))
        numbered = self._set(entry.gtid_executed)
        if entry.origin is VersionOrigin.DDL and numbered == executed:
            raise SchemaGapError(
                f"{entry.name} was changed by a transaction without a GTID, and no GTID set says whether it had been "
                "executed",
                source=self._source,
                table=str(entry.name),
                file=entry.binlog_file,
                offset=entry.binlog_pos,
                remedy="Ask by `--position` or `--time`.",
            )
        return numbered <= executed

    def _gtid(self, text: str) -> Gtid:
        gtid = self._gtids.get(text)
        if gtid is None:
            gtid = self._gtids[text] = Gtid.parse(text)
        return gtid

    def _set(self, text: str) -> Executed:
        executed = self._sets.get(text)
        if executed is None:
            executed = self._sets[text] = parse_executed(text)
        return executed

    # Reach --------------------------------------------------------------------------------------

    def _check_reach(self, position: StreamPosition, table: TableName | None) -> None:
        """Refuses positions after the tracked part of the stream: there may be a DDL there that was not read."""
        tracked = self.tracked
        if isinstance(position, AtSeq):
            beyond = position.seq > tracked.seq
        elif isinstance(position, AtGtidSet):
            beyond = not position.gtid_set <= self._set(tracked.gtid_executed)
        elif isinstance(position, AtTime):
            # The next transaction may still have the same time as the last.
            beyond = position.time > tracked.committed_at
        else:
            self._parts_with(position.position)
            beyond = False
        if beyond:
            raise SchemaGapError(
                f"{position} lies beyond what has been tracked, which ends at {self._end()}",
                source=self._source,
                table=str(table) if table else None,
                remedy=f"Run `strata track FILES --source {self._source} --store URL` with the binlogs that follow.",
            )

    def _parts_with(self, position: BinlogPosition) -> list[TrackedFile]:
        """The tracked parts of one server's file, one of which contains the offset."""
        if position.file not in self._files:
            self._files[position.file] = self._store.files(self._source, position.file)
        runs = grouped_by_file(self._files[position.file])
        files = [run for run in runs if run[0].begin_pos <= position.offset <= run[-1].end_pos]
        if len(files) == 1:
            return files[0]
        if files:
            reason = "is in files of that name of more than one server"
        elif runs:
            reason = f"is not among the tracked offsets {runs[0][0].begin_pos} to {runs[-1][-1].end_pos} of its file"
        else:
            reason = "is in a file that has not been tracked"
        raise SchemaGapError(
            f"{position.file} @ {position.offset} {reason}; the tracked stream ends at {self._end()}",
            source=self._source,
            file=position.file,
            offset=position.offset,
            remedy=f"Ask by `--gtid-set`, or track the file: `strata track FILES --source {self._source} --store URL`.",
        )

    def _is_after(self, file: TrackedFile, position: StreamPosition) -> bool:
        """Whether all of a file is before a position."""
        if isinstance(position, AtSeq):
            return file.last_seq <= position.seq
        if isinstance(position, AtTime):
            return file.committed_at < position.time
        if isinstance(position, AtBinlog):
            parts = self._parts_with(position.position)
            return file.last_seq < parts[0].first_seq or (file in parts and file.end_pos <= position.position.offset)
        return False

    def _end(self) -> str:
        tracked = self.tracked
        where = f" ({tracked.binlog_file} @ {tracked.binlog_pos})" if tracked.binlog_file else ""
        return f"transaction {tracked.seq}{where}, GTID set {tracked.gtid_executed or 'of nothing'}"

    # Reading ------------------------------------------------------------------------------------

    def _timeline(self, table: TableName) -> _Timeline:
        timeline = self._timelines.get(table)
        if timeline is None:
            names = {table, *_wider_than(table)}
            timeline = self._timelines[table] = _Timeline(self._store.timeline(self._source, names))
        return timeline

    def _version(self, table: TableName, entry: StoredEntry, fingerprint: str) -> SchemaVersion:
        version = self._versions.get((entry.version_id, table))
        if version is None:
            version = self._versions[entry.version_id, table] = SchemaVersion(
                version_id=entry.version_id,
                definition=self._store.definition(fingerprint),
                fingerprint=fingerprint,
                seq=entry.seq,
                gtid=entry.gtid,
                origin=entry.origin,
            )
        return version

    # Refusing -----------------------------------------------------------------------------------

    def _refusal(self, message: str, table: TableName) -> SchemaGapError:
        return SchemaGapError(
            message,
            source=self._source,
            table=str(table),
            remedy=f"Ask for a position from {self._begins()} on. Binlogs from before it, if there are any, are "
            "tracked into a store of their own: `strata track FILES --source NAME --store URL --baseline FILE.sql`.",
        )

    def _begins(self) -> str:
        """The start of the history, for people."""
        first = next(iter(self._timeline(EVERY_TABLE).entries), None)
        if first is None:
            return "its first transaction"
        at = str(AtTime(first.committed_at)) if first.committed_at else "its start"
        return f"{at} (GTID set {first.gtid_executed})" if first.gtid_executed else at

    def _gap_error(self, table: TableName, entry: StoredEntry, position: StreamPosition) -> SchemaGapError:
        ddl = self._store.ddl(entry.version_id)
        at_fault = f"; the statement: {shorten(ddl, _DDL_IN_MESSAGE, placeholder='...')}" if ddl else ""
        return SchemaGapError(
            f"the schema is not known at {position}: {entry.gap}{at_fault}",
            source=self._source,
            table=str(table),
            gtid=entry.gtid or entry.missing or None,
            file=entry.binlog_file,
            offset=entry.binlog_pos if entry.binlog_file else None,
            remedy=self._gap_remedy
            or f"`strata snapshot --source {self._source}`, then `strata track --source {self._source}`, closes the "
            "gap from there on.",
        )

    def _absent(self, table: TableName, entry: StoredEntry, position: StreamPosition) -> SchemaGapError:
        dropped = entry.name == table and entry.origin is VersionOrigin.DDL
        ended = f"; {entry.gtid or f'transaction {entry.seq}'} dropped or renamed it" if dropped else ""
        lists = f"`strata schema history --source {self._source} --table {table_word(table)}` lists its versions."
        remedy = self._gap_remedy or lists
        other = None if dropped else self._written_otherwise(table)
        if other is not None:
            ended = f", but there is {other}"
            remedy = (
                "A server with lower_case_table_names = 1 or 2 calls them the same, which no binlog says: track, or "
            )
            remedy += "decode files, with `--lower-case-table-names 1`."
        return SchemaGapError(
            f"there is no such table at {position}{ended}",
            source=self._source,
            table=str(table),
            gtid=entry.gtid if dropped else None,
            file=entry.binlog_file if dropped else None,
            offset=entry.binlog_pos if dropped else None,
            remedy=remedy,
        )

    def _written_otherwise(self, table: TableName) -> TableName | None:
        """A table whose name differs only in case from a lower-case name."""
        if table.lower() != table:
            return None
        names = {entry.name for entry in self._store.all_entries(self._source)} - {table}
        return next((name for name in sorted(names) if name.lower() == table), None)

    def _ambiguous(
        self, entries: Sequence[StoredEntry], flags: Sequence[bool], position: StreamPosition, table: TableName
    ) -> SchemaGapError:
        missing = next(entry for entry, applies in zip(entries, flags, strict=True) if not applies)
        later = next(e for e, applies in zip(reversed(entries), reversed(flags), strict=True) if applies)
        return SchemaGapError(
            f"more than one version could be meant at {position}: it has {later.gtid or later.gtid_executed} "
            f"but not the earlier {missing.gtid or missing.gtid_executed}",
            source=self._source,
            table=str(table) if table.table else None,
            gtid=missing.gtid,
            file=missing.binlog_file,
            offset=missing.binlog_pos if missing.binlog_file else None,
            remedy="Ask for a GTID set that the source itself had at some time, as those of `strata schema history`.",
        )


def _wider_than(name: TableName) -> tuple[TableName, TableName]:
    return every_table_of(name.database), EVERY_TABLE


def _timelines(entries: Iterable[StoredEntry]) -> Iterator[tuple[TableName, _Timeline]]:
    """By name, from all entries of these names and of those for all tables, in stream order within a name."""
    by_name: dict[TableName, list[StoredEntry]] = {}
    for entry in entries:
        by_name.setdefault(entry.name, []).append(entry)
    for name, own in by_name.items():
        wider = [by_name.get(wide, []) for wide in {*_wider_than(name)} - {name}]
        others = [entry for entries in wider for entry in entries]
        yield name, _Timeline(sorted([*own, *others], key=lambda entry: entry.order) if others else own)


def _is_made_later(name: TableName, newest: StoredEntry, timeline: _Timeline) -> bool:
    """Whether a name is known to be free although all tables are unknown: a later statement could create the table."""
    if newest.name == name:
        return False
    later = next((entry for entry in timeline.entries if entry.name == name and entry.order > newest.order), None)
    return later is not None and later.is_statement and later.fingerprint is not None
