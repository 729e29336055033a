"""Lands an archive of binlog files instead of a server's stream: same segments, continued in the same way.
Not here: the order of the files (`archive.py`), cutting the stream (`cut_segments.py`)."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.bytes.chain import ChainKind
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.pages import forget_pages, load_pages
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.transactions import BATCH_EVENTS, scan_transactions
from strata_cdc.errors import CorruptEventError, StreamHoleError, TruncatedEventError
from strata_cdc.landing.archive import ArchivedFile, read_archive
from strata_cdc.landing.cut_segments import (
    SEGMENT_BYTES,
    LandReport,
    SegmentCutter,
    open_landing,
    refuse_other_family,
)
from strata_cdc.landing.land_state import Doing, LandNotes, LandProgress
from strata_cdc.landing.recorder import Sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.position.port import Executed

_LOG = logging.getLogger("strata.land")
_CHUNK_BYTES = 8 << 20
_FEW_EVENTS = 64


def land_files(
    files: str,
    *,
    lake: str,
    source: str,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Callable[[LandProgress], None] | None = None,
) -> LandReport:
    """Lands all transactions in the binlogs of a folder that have not landed yet.

    If it is killed at any time, what is published stays; the next run continues from there, and duplicates nothing. A
    server's stream and archives may alternate.

    Args:
        files: Folder or URL; the files may be plain, or in gzip or zstd.
        lake: Folder or URL of the lake.
        source: Name of the source.
        segment_bytes: As for `land_binlog`.
        progress: Called about every 16 MB.

    Raises:
        StreamHoleError: Transactions between what has landed and a file, or between two files, are in none of them;
            what comes before them has landed.
        SourceSettingsError: Transactions have no GTID.
        AlreadyRunningError: Another landing of this source runs.
        CorruptEventError: A file is damaged; what comes before that has landed.
        Usage: The folder has no binlogs, or relay logs.
        LakeUnavailableError: The storage refuses or is full, or the files cannot be read.
    """
    # First, so that a wrong folder makes no lake.
    archive = read_archive(files)
    notes = LandNotes(lake, source, files, Doing.LANDING, progress)
    with open_landing(lake, source, segment_bytes, notes) as cutter:
        cutter.begin_at(archive[0].previous)
        landing = _FileLanding(cutter, notes, archive)
        landing.run()
    return cutter.report(cutter.end.executed)


class _FileLanding:
    """One run over an archive."""

    def __init__(self, cutter: SegmentCutter, notes: LandNotes, archive: list[ArchivedFile]) -> None:
        self._cutter, self._notes, self._archive = cutter, notes, archive
        self._least = (archive[-1].previous - cutter.before.executed).count()

    def run(self) -> None:
        for file, following in pairwise([*self._archive, None]):
            executed = self._cutter.end.executed
            if file is None or (following is not None and following.previous <= executed):
                # All its transactions came before the next file, and have landed.
                continue
            self._check(file, executed)
            try:
                self._land(file)
                self._cutter.finish()
            except CorruptEventError:
                self._cutter.finish()
                raise
            finally:
                self._cutter.discard()
            self._tell()

    def _check(self, file: ArchivedFile, executed: Executed) -> None:
        refuse_other_family(executed, file.head.form.flavour.vendor)
        hole = file.previous - executed
        if hole:
            raise StreamHoleError(
                f"transactions are missing between what has landed and {file.name}; none of the files has them",
                gtid=str(hole),
                file=file.url,
                remedy="Put the file that holds them into the folder, or land them from a server that still has them; "
                "then run the same again.",
            )

    def _land(self, file: ArchivedFile) -> None:
        with open_binlog(file.url) as binlog:
            try:
                begin = self._begin_of_rest(binlog, file)
                if begin is None:
                    self._land_chosen(binlog, file)
                elif begin < len(binlog.buffer):
                    self._cutter.start_file(file.head, Sender(url=file.url, is_gapless=True))
                    self._append(binlog, begin, len(binlog.buffer))
                    self._cutter.end_file()
            except TruncatedEventError as error:
                # A copy of a file that the server was still writing; `_check` of the next file finds what is missing.
                _LOG.warning("%s", error.located(file=file.url))

    def _begin_of_rest(self, binlog: BinlogFile, file: ArchivedFile) -> int | None:
        """Offset from which on nothing of a file has landed, and before which all has: the rest of the file is not
        walked over here, as the segment's recorder does that. None if the file is not so, or is no server's own."""
        if chain_of(binlog, binlog.first_event).kind is not ChainKind.BINLOG:
            return None
        executed, passed = self._cutter.end.executed, file.previous
        # Most files begin with the first transaction that has not landed.
        batch_events = _FEW_EVENTS if executed <= passed else BATCH_EVENTS
        for batch in scan_transactions(binlog, batch_events=batch_events):
            landed = int(np.argmin(np.append(~batch.new_rows(executed), False)))
            passed = batch.added_to(passed, 0, landed)
            if landed < len(batch):
                return int(batch.begins[landed]) if executed <= passed else None
        return len(binlog.buffer)

    def _land_chosen(self, binlog: BinlogFile, file: ArchivedFile) -> None:
        """Lands the transactions that have not landed, wherever they are in a file."""
        self._cutter.start_file(file.head, Sender(url=file.url))
        executed, end = self._cutter.end.executed, 0
        for batch in scan_transactions(binlog):
            for begin, end in _missing_spans(batch, executed):
                self._append(binlog, begin, end)
        if end:
            self._cutter.append_last(binlog.buffer[end:].tobytes())

    def _append(self, binlog: BinlogFile, begin: int, end: int) -> None:
        for at in range(begin, end, _CHUNK_BYTES):
            following = min(at + _CHUNK_BYTES, end)
            load_pages(binlog.buffer, at, following)
            self._cutter.append(binlog.buffer[at:following].data)
            forget_pages(binlog.buffer, at, following)
            if self._cutter.scan():
                self._tell()
                self._cutter.cut()

    def _tell(self) -> None:
        cutter = self._cutter
        landed = cutter.seq - cutter.before.seq
        self._notes.tell(LandProgress(landed, max(landed, self._least), cutter.landed_bytes, cutter.clock))


def _missing_spans(batch: TransactionBatch, executed: Executed) -> Iterator[tuple[int, int]]:
    """Where consecutive transactions that a position does not contain begin and end in the file."""
    new = batch.new_rows(executed)
    edges = np.flatnonzero(np.diff(new, prepend=False, append=False)).reshape(-1, 2)
    for first, end in edges.tolist():
        yield int(batch.begins[first]), int(batch.ends[end - 1])
