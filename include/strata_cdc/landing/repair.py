"""Repairs a landing folder before a landing: deletes files that a killed landing left, makes lost or damaged indexes
again. Not here: segments themselves, which are never changed once they have their name."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.files import BinlogFile, open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.segment import SegmentForm, SegmentName, remove_leftovers, require_form, storage_errors
from strata_cdc.binlog.events.index import SUFFIX, IndexWriter, Resume, SegmentIndex, SegmentSummary, check_index
from strata_cdc.binlog.events.model import PreviousGtids
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.places import arriving_chain
from strata_cdc.binlog.events.transactions import scan_transactions
from strata_cdc.binlog.events.xa import UndecidedTransactions
from strata_cdc.errors import DamagedIndexError, LakeUnavailableError, StreamHoleError
from strata_cdc.landing.checked import (
    CheckedIndex,
    NewestSegments,
    read_checked,
    read_newest,
    write_checked,
    write_newest,
)
from strata_cdc.landing.recent import landed_names
from strata_cdc.landing.recorder import StreamEnd
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.executed import NOTHING, ExecutedBuilder, parse_executed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.binlog.events.xa import PreparedTransaction
    from strata_cdc.files.storage import Folder
    from strata_cdc.position.port import Executed


_LOG = logging.getLogger("strata.land")
_CHECK_SECONDS = 7 * 86_400
"""An index whose file has not changed is read again after this time: disks lose data."""


class LookLimits(Struct, frozen=True):
    """How much of a landing folder a landing looks at."""

    newest: int = 100
    """Segments at least at whose files every landing looks."""
    all_seconds: int = 3600
    """After so long, a landing looks at those of all segments."""


class LandedKind(Struct, frozen=True):
    """How the indexes of one form of segments are made again."""

    form: SegmentForm
    rebuild: Callable[[Folder, SegmentName, SegmentSummary | None], None]
    """Writes the index of a segment; it gets the summary of the segment before it, None for the first."""


def _rebuild(folder: Folder, name: SegmentName, before: SegmentSummary | None) -> None:
    after = StreamEnd.from_summary(before, name.ordinal - 1) if before else _end_before(folder, name)
    rebuild_index(folder, name, after)


BINLOGS: Final = LandedKind(SegmentForm.BINLOG, _rebuild)
"""Of servers."""


def repair_landing(
    folder: Folder,
    limits: LookLimits = LookLimits(),  # noqa: B008  immutable
    kind: LandedKind = BINLOGS,
) -> bool:
    """Repairs the folder; needs the folder's lock.

    It looks at the files of the newest segments, and once an hour at those of all: a file that is lost or changed in
    between is noticed when it is read.

    Args:
        folder: The landing folder.
        limits: How much is looked at.
        kind: What lands there.

    Returns:
        Whether all segments were looked at.

    Raises:
        LakeUnavailableError: The storage does not answer.
        BadData: A segment whose index is lost or damaged is damaged too.
        StreamHoleError: A segment lost its index and its predecessor.
        SourceSettingsError: What has landed is of the other kind.
    """
    newest, now = read_newest(folder), int(time.time())
    is_fresh = newest is not None and 0 <= now - newest.looked_at < limits.all_seconds
    if newest is not None and is_fresh and _look_at_newest(folder, newest, now, kind):
        return False
    _look_at_all(folder, limits, now, kind)
    return True


def _look_at_newest(folder: Folder, newest: NewestSegments, now: int, kind: LandedKind) -> bool:
    """Whether the segment from which on it looks is as it was; else nothing is done, and all must be looked at."""
    left: list[str] = []
    names, known = landed_names(folder, newest.first, left), newest.indexes
    segments, first = _of_this_kind(folder, names, kind), known.get(newest.first)
    if first is None or segments[:1] != [newest.first] or now - first.seen_at >= _CHECK_SECONDS:
        return False
    if folder.stamps_of([f"{newest.first}{SUFFIX}"]) != {f"{newest.first}{SUFFIX}": _stamp_of(first)}:
        return False
    remove_leftovers(folder, left)
    checked = _repaired(folder, segments, names, known, kind)
    if checked != known:
        write_newest(folder, replace(newest, indexes=checked))
    _upgrade_if_old(folder, segments, kind)
    return True


def _look_at_all(folder: Folder, limits: LookLimits, now: int, kind: LandedKind) -> None:
    remove_leftovers(folder, folder.leftovers())
    names, newest = landed_names(folder), read_newest(folder)
    segments = _of_this_kind(folder, names, kind)
    former = read_checked(folder)
    known = former | newest.indexes if newest and former else former
    checked = _repaired(folder, segments, names, known, kind)
    if checked != former:
        write_checked(folder, checked)
    if len(segments) > limits.newest:
        last = segments[-limits.newest :]
        write_newest(
            folder, NewestSegments(last[0], now, {name: checked[name] for name in last if name in checked}, segments[0])
        )
    _upgrade_if_old(folder, segments, kind)


def _of_this_kind(folder: Folder, names: Sequence[str], kind: LandedKind) -> list[str]:
    """The names that are of segments, which must have the form of the kind."""
    segments = [name for name in names if SegmentName.is_one(name)]
    if segments:
        require_form(folder, _parsed(segments[-1]), kind.form)
    return segments


def _upgrade_if_old(folder: Folder, segments: Sequence[str], kind: LandedKind) -> None:
    """Of the indexes of binlogs, the first forms lacked what today's have."""
    if kind.form is not SegmentForm.BINLOG or not segments:
        return
    if SegmentIndex.open(folder, f"{segments[-1]}{SUFFIX}").summary.prepared is None:
        upgrade_indexes(folder)


def _repaired(
    folder: Folder, segments: Sequence[str], names: Sequence[str], known: Mapping[str, CheckedIndex], kind: LandedKind
) -> dict[str, CheckedIndex]:
    """The indexes of segments that are as they were written; the others are made again."""
    # The index of a sink's segment is a part of the segment, and may be listed without it: another machine may have
    # written both since the listing began.
    if kind.form is SegmentForm.BINLOG:
        _delete_strays(folder, segments, names)
    return _checked(folder, segments, known, kind.rebuild)


def _delete_strays(folder: Folder, segments: Sequence[str], names: Sequence[str]) -> None:
    present = set(segments)
    for file in names:
        segment = file.removesuffix(SUFFIX)
        # A store may list an index before its segment.
        if segment != file and segment not in present and not folder.exists(segment):
            folder.delete(file)


def _checked(
    folder: Folder,
    segments: Sequence[str],
    known: Mapping[str, CheckedIndex],
    rebuild: Callable[[Folder, SegmentName, SegmentSummary | None], None],
) -> dict[str, CheckedIndex]:
    """Looks at the indexes of segments, and makes those again that are not as they were written; these are checked by
    the next landing."""
    now = int(time.time())
    files = folder.stamps_of([*segments, *(f"{name}{SUFFIX}" for name in segments)])
    checked: dict[str, CheckedIndex] = {}
    for at, file in enumerate(segments):
        seen, stamp = known.get(file), files.get(f"{file}{SUFFIX}")
        if seen is not None and _stamp_of(seen) == stamp and now - seen.seen_at < _CHECK_SECONDS:
            checked[file] = seen
            continue
        name = _parsed(file)
        before = SegmentIndex.open(folder, f"{segments[at - 1]}{SUFFIX}").summary if at else None
        if stamp and file in files and _is_sound(folder, name, files[file][0], before):
            checked[file] = CheckedIndex(*stamp, now)
            continue
        rebuild(folder, name, before)
    return checked


def _stamp_of(seen: CheckedIndex | None) -> tuple[int, int] | None:
    return None if seen is None else (seen.size, seen.changed_at)


def _parsed(name: str) -> SegmentName:
    parsed = SegmentName.parse(name)
    assert parsed is not None  # noqa: S101  all names were looked at
    return parsed


def _is_sound(folder: Folder, name: SegmentName, size: int, before: SegmentSummary | None) -> bool:
    """Whether the index of a segment is as it was written, and belongs to this segment of `size` bytes."""
    try:
        summary = check_index(folder, f"{name}{SUFFIX}")
    except DamagedIndexError as error:
        _LOG.warning("%s It is made again from its segment.", error)
        return False
    if summary.bytes == size and (before is None or _follows(summary, before)):
        return True
    _LOG.warning("%s%s is the index of another segment. It is made again.", name, SUFFIX)
    return False


def _follows(summary: SegmentSummary, before: SegmentSummary) -> bool:
    return (summary.first_seq, summary.clock_before) == (before.last_seq + 1, before.clock_after)


def _end_before(folder: Folder, name: SegmentName) -> StreamEnd:
    """The end of the stream before the first segment in the lake.

    Raises:
        StreamHoleError: It is not the first of the stream, and its index does not have what came before it.
    """
    if name.ordinal == 1:
        return StreamEnd()
    with suppress(DamagedIndexError, LakeUnavailableError):
        summary = SegmentIndex.open(folder, f"{name}{SUFFIX}").summary
        executed = parse_executed(summary.executed_before)
        return StreamEnd(
            name.ordinal - 1, summary.first_seq - 1, summary.clock_before, executed, Resume(summary.resume)
        )
    raise StreamHoleError(
        "the first segment has no index, and its transactions cannot be numbered: the segments before it are deleted",
        file=folder.join(str(name)),
        remedy="Restore the index from a backup of the lake, or land the source again under another name.",
    )


def upgrade_indexes(folder: Folder) -> None:
    """Makes indexes without XA again, the oldest first: each passes undecided transactions on to the next.

    Needs no lock: two processes write the same, and a process that is killed leaves the newest index as it was.

    Raises:
        LakeUnavailableError: The storage does not answer, or is read-only.
        CorruptEventError: A segment is damaged.
    """
    names = landed_names(folder)
    indexed = {name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)}
    segments = [parsed for name in names if name in indexed and (parsed := SegmentName.parse(name))]
    if not segments or SegmentIndex.open(folder, f"{segments[-1]}{SUFFIX}").summary.prepared is not None:
        return
    prepared: tuple[PreparedTransaction, ...] = ()
    for name in segments:
        before = SegmentIndex.open(folder, f"{name}{SUFFIX}").summary
        if before.prepared is None:
            start = StreamEnd(
                seq=before.first_seq - 1,
                clock=before.clock_before,
                executed=parse_executed(before.executed_before),
                resume=Resume(before.resume),
                prepared=prepared,
            )
            prepared = _write_index(folder, name, start, before).prepared or ()
        else:
            prepared = before.prepared


def rebuild_index(folder: Folder, name: SegmentName, after: StreamEnd) -> StreamEnd:
    """Makes the index of a segment from its bytes.

    Args:
        folder: The landing folder.
        name: The segment.
        after: The end of the stream before it; for the first segment of a stream, its own PREVIOUS_GTIDS counts.

    Raises:
        CorruptEventError: The segment is damaged.
        LakeUnavailableError: The storage, or this machine's temporary folder, refuses or is full.
    """
    if not after.ordinal:
        with open_binlog(folder.join(str(name))) as binlog:
            after = replace(after, executed=_previous(binlog))
    return StreamEnd.from_summary(_write_index(folder, name, after), name.ordinal)


def _write_index(
    folder: Folder, name: SegmentName, after: StreamEnd, known: SegmentSummary | None = None
) -> SegmentSummary:
    """Makes an index from a segment's bytes, and from the values in an older index that the bytes do not have."""
    with (
        open_binlog(folder.join(str(name))) as binlog,
        storage_errors(folder),
        tempfile.TemporaryDirectory(prefix="strata-") as temporary,
    ):
        executed, clock = ExecutedBuilder(after.executed), CommitClock(after.clock)
        undecided, uncounted = UndecidedTransactions(after.prepared or ()), set[tuple[str, str]]()
        path, transactions, resume = f"{temporary}/index", 0, after.resume
        writer = IndexWriter(path)
        try:
            # What the lost index had about skipped transactions is lost with it.
            chain = arriving_chain(binlog.format, None)
            for batch in scan_transactions(binlog, first_seq=after.seq + 1, clock=clock, chain=chain):
                writer.write(batch)
                batch.add_to(executed)
                batch.decide(undecided)
                uncounted |= batch.uncounted
                transactions += len(batch)
                if (batch.sid_numbers < 0).any():
                    resume = Resume.FILE
            summary = SegmentSummary(
                segment=str(name),
                binlog_file=name.binlog_file,
                server_uuid=known.server_uuid if known else "",
                bytes=len(binlog.buffer),
                first_seq=after.seq + 1,
                transactions=transactions,
                clock_before=after.clock,
                clock_after=clock.now,
                server_end=known.server_end if known else 0,
                executed_before=str(after.executed),
                executed=str(executed.build()),
                resume=known.resume if known else resume,
                prepared=None if after.prepared is None else undecided.prepared(),
                uncounted=tuple(sorted(uncounted)),
            )
            writer.close(summary)
        finally:
            writer.abandon()
        folder.write(f"{name}{SUFFIX}", Path(path).read_bytes())
    return summary


def _previous(binlog: BinlogFile) -> Executed:
    index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format, 2)
    for position, length in zip(index.positions.tolist(), index.lengths.tolist(), strict=True):
        event = parse_event(binlog.buffer, position, length, binlog.format)
        if isinstance(event, PreviousGtids):
            return event.gtid_set
    return NOTHING
