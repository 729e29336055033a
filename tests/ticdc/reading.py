"""What the tests read of a folder: rows as `strata decode` writes them, with their commit timestamps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_cdc.changes.jsonl import TableLines
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows, SchemaChange, Watermark
from strata_cdc.errors import StrataError
from strata_cdc.position.commit_ts import CommitStep
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.folder import FolderState, next_state, read_contents
from strata_cdc.ticdc.history import SinkHistory
from strata_cdc.ticdc.limits import SinkLimits
from strata_cdc.ticdc.windows import SinkWindows

if TYPE_CHECKING:
    from pathlib import Path

SMALL = SinkLimits(block_bytes=300, first_bytes=200, batch_rows=3)
"""So that a few rows are several blocks and batches."""


@dataclass
class Read:
    """What there was."""

    rows: list[tuple[int, str, str, Any, Any]] = field(default_factory=list)
    """Commit timestamp, table, operation, and both images."""
    aside: list[tuple[int, str, str, Any, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    """What may be missing."""
    ddl: list[SchemaChange] = field(default_factory=list)
    seqs: list[tuple[int, int]] = field(default_factory=list)
    """Ordinal and number of each row."""
    state: FolderState = FolderState()
    end: CommitStep = CommitStep(0)
    counts: Any = None
    error: StrataError | None = None


def read(
    folder: Path | str,
    settings: CsvSettings = CsvSettings(time_zone="UTC"),
    begin: CommitStep = CommitStep(0),
    known: FolderState = FolderState(),
    limits: SinkLimits = SMALL,
    wanted: Any = lambda _: True,
) -> Read:
    """Reads a folder up to its checkpoint, or to the first error."""
    got = Read()
    contents = read_contents(str(folder), known)
    windows = SinkWindows(
        contents, SinkHistory.from_files(contents.schema_files, wanted), settings, begin, 1, known, limits
    )
    got.counts = windows.counts
    try:
        for window in windows.windows():
            got.ddl += window.ddl
            by_seq = {window.first_seq + at: step for at, step in enumerate(window.steps)}
            for one in window.decoded():
                take(got, one, by_seq)
    except StrataError as error:
        got.error = error
    got.state = next_state(contents, windows.read_files(), known)
    got.end = CommitStep(contents.checkpoint_ts - 1, is_ddl=True)
    return got


def take(got: Read, one: Any, by_seq: dict[int, CommitStep]) -> None:
    if isinstance(one, Watermark):
        return
    if isinstance(one, Hole):
        got.holes.append(str(one.error))
        return
    assert isinstance(one, ChangeBatch | QuarantinedRows)
    batch = one.batch if isinstance(one, ChangeBatch) else one.rows
    batch.validate(full=True)
    rows = got.rows if isinstance(one, ChangeBatch) else got.aside
    for line in TableLines(one.table, one.definition).objects(batch):
        assert not by_seq[line["seq"]].is_ddl
        rows.append((by_seq[line["seq"]].ts, str(one.table), line["op"], line["before"], line["after"]))
        got.seqs.append((line["seq"], line["row"]))
    if isinstance(one, QuarantinedRows):
        got.reasons.append(str(one.error))
