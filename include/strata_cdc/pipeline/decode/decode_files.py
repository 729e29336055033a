"""Decodes whole binlog files in stream order, with the versions of a store or by their TABLE_MAPs alone.
Not here: slices of landed segments (`decode_slice.py`), tracking (`tracking/track_schema.py`), output
(`cli/decode.py`)."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.repeats import Repeat, find_repeats
from strata_cdc.binlog.events.salvage import Damage, find_whole_transactions
from strata_cdc.binlog.events.transactions import read_transactions, scan_transactions
from strata_cdc.binlog.sources.files import FileSource, in_stream_order
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.decode import decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans, OnMismatch
from strata_cdc.changes.plan import Range
from strata_cdc.changes.port import DecodedItem, Hole, TableVersion
from strata_cdc.changes.windows import read_windows
from strata_cdc.errors import CorruptEventError, SchemaGapError, StrataError
from strata_cdc.pipeline.decode.file_ranges import FileRange, PreparedInFiles, UndecidedRows, in_file_order
from strata_cdc.pipeline.decode.plain_files import PlainFile, PlainFiles
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.history.shell_words import word
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.replay.baseline import read_baseline_file
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.tracking.feed_tracker import feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.changes.port import Lookup
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.model.definition import TableName


_REMEDY_WITHOUT_STORE: Final = (
    "Say what there was before the first file, `--baseline FILE.sql`, as `mysqldump --no-data` writes it; or take the "
    "versions of a store that knows the table, `--source NAME --store URL`."
)

FileStep = DecodedItem | Damage | Repeat | UndecidedRows
"""What decoding gives: rows, and why others are excluded."""


class _StreamBefore(Struct):
    """Where a file lies in the stream."""

    seq: int = 0
    """Ordinal of the last transaction before it."""
    clock: int = 0
    """The commit clock before it, microseconds UTC."""
    seen: ExecutedBuilder = field(default_factory=ExecutedBuilder)
    """The GTIDs before it: what comes again has no ordinal, and gives no rows."""


class _DecodeRequest(Struct):
    """How files are decoded."""

    lookup: Lookup | None
    wanted: Callable[[TableName], bool]
    on_mismatch: OnMismatch
    skip_corrupt: bool
    prepared: PreparedInFiles
    plain: Mapping[str, PlainFile] = field(default_factory=dict)

    def plain_file(self, binlog: BinlogFile) -> PlainFile | None:
        """What is known of a file if it is plain, and as long as when it was tracked."""
        plain = self.plain.get(binlog.path)
        return plain if plain is not None and plain.end == len(binlog.buffer) else None

    def ranges(self, binlog: BinlogFile, part: Range, chain: EventChain) -> Iterable[FileRange]:
        """The ranges of a part of a file, as `PreparedInFiles.ranges`."""
        if self.plain_file(binlog) is not None:
            return (in_file_order(binlog, part),)
        return self.prepared.ranges(binlog, part, chain)


class TrackedFiles(Struct):
    """What tracking has made of files that no store has."""

    versions: MemoryStore
    plain: Mapping[str, PlainFile]
    """Files in which decoding need not look for exceptions, by path."""
    fault: StrataError | None = None
    """What ended tracking: decoding meets it after the rows before it."""


def track_in_memory(
    paths: Sequence[str],
    source: str,
    baseline: str | None,
    *,
    lower_case_table_names: int | None = None,
    skip_corrupt: bool = False,
) -> TrackedFiles:
    """Tracks files that no store has.

    Args:
        paths: As for `decode_files`.
        source: Name of the source.
        baseline: Path of a script with what there was before the first file.
        lower_case_table_names: Of the server, 0 to 2; no binlog has it.
        skip_corrupt: Continues after damage.

    Raises:
        Usage: The baseline cannot be read.
    """
    versions = MemoryStore()
    known = None
    if baseline is not None:
        known = read_baseline_file(baseline, lower_case_table_names=lower_case_table_names or 0)
    tracker = Tracker(versions, source, baseline=known, lower_case_table_names=lower_case_table_names)
    files = PlainFiles(FileSource(paths, skip_corrupt=skip_corrupt))
    try:
        feed(tracker, files)
    except StrataError as error:
        return TrackedFiles(versions, files.found, error)
    return TrackedFiles(versions, files.found)


def decode_files(
    paths: Sequence[str],
    store: VersionStore,
    source: str,
    *,
    wanted: Callable[[TableName], bool],
    on_mismatch: OnMismatch = OnMismatch.QUARANTINE,
    skip_corrupt: bool = False,
    plain: Mapping[str, PlainFile] | None = None,
) -> Iterator[FileStep]:
    """The rows of tracked files, each by the version that was true for it.

    Args:
        paths: Binlog files of one source; put into the order of their numbers where they have one name.
        store: Where their versions are.
        source: Name of the source.
        wanted: Which tables to decode.
        on_mismatch: What to do where a TABLE_MAP contradicts a version.
        skip_corrupt: Continues after damage, which is returned with the rows; the files must have been tracked like
            that.
        plain: Files in which tracking has met no exceptions, by path.

    Raises:
        StrataError: As `decode_slice`, after the rows before the fault; SchemaGapError for a file that has
            not been tracked.
    """
    # Of files alone, there is no source that could have a snapshot.
    history = History(store, source, gap_remedy=_REMEDY_WITHOUT_STORE if isinstance(store, MemoryStore) else None)
    versions: dict[tuple[TableName, int], TableVersion] = {}

    def lookup(table: TableName, seq: int) -> TableVersion:
        version = history.at(table, AtSeq(seq))
        key = (table, version.version_id)
        if key not in versions:
            near = partial(history.neighbours, *key)
            versions[key] = TableVersion(version.version_id, version.definition, near)
        return versions[key]

    request = _DecodeRequest(lookup, wanted, on_mismatch, skip_corrupt, PreparedInFiles(), plain or {})
    clock = 0
    for path in in_stream_order(paths):
        with open_binlog(path) as binlog:
            state = _tracked_place(store, source, binlog)
            state.clock = clock
            yield from _decode_file(binlog, state, request)
            clock = state.clock
    yield from request.prepared.undecided()


def decode_files_physically(
    paths: Sequence[str], *, wanted: Callable[[TableName], bool], skip_corrupt: bool = False
) -> Iterator[FileStep]:
    """The rows of files by their TABLE_MAPs alone: columns `@1`, `@2`, ..., labels as numbers."""
    state, request = _StreamBefore(), _DecodeRequest(None, wanted, OnMismatch.FAIL, skip_corrupt, PreparedInFiles())
    for path in in_stream_order(paths):
        with open_binlog(path) as binlog:
            yield from _decode_file(binlog, state, request)
    yield from request.prepared.undecided()


def _tracked_place(store: VersionStore, source: str, binlog: BinlogFile) -> _StreamBefore:
    """The position of the stream at the file's beginning, from what was tracked.

    A file may begin with what has come before in another one, or hold nothing else: then each of its transactions has
    to be one that was tracked.
    """
    begin = binlog.segment.offset if binlog.segment else binlog.first_event
    parts = sorted(store.files(source, binlog.name), key=lambda part: part.begin_pos)
    part = next((part for part in parts if begin < part.end_pos), None)
    position = store.position(source)
    if part is not None:
        seen, state = parse_executed(part.gtid_before), _StreamBefore(part.first_seq - 1)
        is_known = part.begin_pos <= begin or _has_come(binlog, seen, binlog.first_event + part.begin_pos - begin)
    else:
        seen, state = parse_executed(position.gtid_executed if position else ""), _StreamBefore()
        is_known = bool(seen) and _has_come(binlog, seen, len(binlog.buffer))
    if not is_known:
        raise SchemaGapError(
            "the file has not been tracked",
            source=source,
            file=binlog.path,
            remedy=f"Run `strata track {word(binlog.path)} --source {source} --store URL` first.",
        )
    state.seen = ExecutedBuilder(seen)
    return state


def _has_come(binlog: BinlogFile, seen: Executed, end: int) -> bool:
    """Whether the stream has had each transaction of a file up to an offset."""
    builder = ExecutedBuilder()
    try:
        for batch in scan_transactions(binlog, end=end):
            if (batch.sid_numbers < 0).any():
                return False
            batch.add_to(builder)
    except CorruptEventError:
        return False
    return builder.build() <= seen


def _decode_file(binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest) -> Iterator[FileStep]:
    if not request.skip_corrupt:
        yield from _decode_once(binlog, state, request, binlog.first_event, len(binlog.buffer))
        return
    for whole in find_whole_transactions(binlog):
        yield from _decode_once(binlog, state, request, whole.begin, whole.end)
        if whole.damage is not None:
            yield from _pass_over(binlog, state, request, whole.damage)


def _decode_once(
    binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest, begin: int, end: int
) -> Iterator[FileStep]:
    """The transactions between two offsets, but for those that have come before."""
    decode = _decode_transactions if request.skip_corrupt else _decode_bytes
    chain = chain_of(binlog, begin)
    for repeat in _repeats(binlog, state, request, begin, end):
        yield from decode(binlog, state, request, begin, repeat.begin, chain)
        index = index_events(binlog.buffer, repeat.begin, repeat.end, binlog.format)
        _, fault = chain.follow(binlog.buffer, index)
        if fault is not None:
            raise fault.located(file=binlog.path, gtid=str(repeat.gtid))
        yield repeat
        begin = repeat.end
    yield from decode(binlog, state, request, begin, end, chain)


def _repeats(
    binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest, begin: int, end: int
) -> Iterable[Repeat]:
    """The transactions between two offsets that have come before; all are added to what the stream has had."""
    plain, seen = request.plain_file(binlog), state.seen.build()
    is_whole = (begin, end) == (binlog.first_event, len(binlog.buffer))
    if plain is None or not is_whole or not plain.is_new(seen):
        return find_repeats(binlog, state.seen, begin, end)
    state.seen = ExecutedBuilder(seen | plain.executed)
    return ()


def _pass_over(binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest, damage: Damage) -> Iterator[FileStep]:
    gtid = damage.gtid
    if gtid is None or not state.seen.contains(gtid):
        seq = state.seq + 1
        # The rows before the fault are correct.
        with suppress(CorruptEventError):
            yield from _decode_bytes(binlog, state, request, damage.begin, damage.end, chain_of(binlog, damage.begin))
        state.seq = seq
    if gtid is not None:
        state.seen.add(gtid)
    damage.error.located(gtid=str(gtid) if gtid else None)
    yield damage


def _decode_transactions(
    binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest, begin: int, end: int, chain: EventChain
) -> Iterator[DecodedItem | Damage]:
    """Whole transactions. One of them whose cells contradict themselves, which shows only here, is damage as well."""
    while begin < end:
        start, prepared = replace(state), request.prepared.copy()
        try:
            yield from _decode_bytes(binlog, state, request, begin, end, chain)
        except CorruptEventError as error:
            clock = CommitClock(start.clock)
            records = read_transactions(binlog, first_seq=start.seq + 1, clock=clock, begin=begin, end=end)
            damaged = _damaged(binlog, records, prepared, begin if error.offset is None else error.offset)
            if damaged is None or error.file not in {None, binlog.name, binlog.path}:
                # Rows of a prepared transaction, which lie at another position than their XA COMMIT.
                raise
            request.prepared = prepared
            state.seq, state.clock, begin = damaged.seq, damaged.committed_at, damaged.end
            chain = chain_of(binlog, begin)
            yield Damage(error, damaged.begin, damaged.end, damaged.gtid, may_hide_ddl=False)
        else:
            return


def _damaged(
    binlog: BinlogFile, records: Iterable[TransactionRecord], prepared: PreparedInFiles, offset: int
) -> TransactionRecord | None:
    """The transaction with a byte of a file in it, if its rows lie where they take effect.

    Brings `prepared` up to it.
    """
    for record in records:
        prepared.apply(binlog.path, record)
        if record.end > offset:
            return record if record.mark is None else None
    return None


def _decode_bytes(
    binlog: BinlogFile, state: _StreamBefore, request: _DecodeRequest, begin: int, end: int, chain: EventChain
) -> Iterator[DecodedItem]:
    ranges = request.ranges(binlog, Range(begin, end, 0, state.seq + 1, state.clock), chain)
    for path, together in groupby(ranges, key=attrgetter("path")):
        with ExitStack() as files:
            opened = binlog if path == binlog.path else files.enter_context(open_binlog(path))
            plans = DecodePlans(request.lookup, wanted=request.wanted, on_mismatch=request.on_mismatch)
            reader = RowReader(opened, plans)
            windows = read_windows(opened, (each.range for each in together), chain)
            try:
                yield from decode_blocks(reader.read_blocks(windows), opened.name)
                reader.check_end()
            except StrataError as error:
                raise error.located(file=path) from None
            finally:
                if opened is binlog:
                    state.seq, state.clock = reader.seq, reader.clock
        yield from (Hole(error) for error in request.prepared.take_lost())
