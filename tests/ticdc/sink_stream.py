"""A stream over a sink's folder, by the product's own stages. Its tokens are the test's: the product has none for
commit timestamps yet. Not here: tests."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from strata_cdc.errors import SchemaGapError
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token_digits import digits, numbers_of
from strata_cdc.position.token_seal import SEAL_LETTERS, sealed
from strata_cdc.streams.events import Along, StreamTransaction
from strata_cdc.streams.port import ChosenTransactions
from strata_cdc.streams.transactions import StreamTransactions
from strata_cdc.ticdc.changes import SinkChanges, SinkColumns, SinkItem, SinkPositions
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.history import SinkHistory
from strata_cdc.ticdc.limits import SinkLimits
from strata_cdc.ticdc.windows import SinkWindows

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from strata_cdc.schema.model.definition import TableDefinition, TableName


LIMITS = SinkLimits(block_bytes=2000, batch_rows=3)


def text_of(step: CommitStep) -> str:
    return f"ticdc.{step.ts}{'d' if step.is_ddl else 'r'}."


class _Steps:
    """The tokens inside a commit."""

    crc, tail = 0, ""

    def __init__(self, step: CommitStep) -> None:
        self.head = text_of(step)

    def text(self, steps: int) -> str:
        return sealed(f"{self.head}{digits(steps)}")


class SinkPlace(StreamTransaction):
    """A commit whose tokens are `ticdc.TS` and, inside of it, `ticdc.TS.STEP`."""

    @cached_property
    def after_text(self) -> str:
        return text_of(self.transaction)

    @cached_property
    def steps(self) -> Any:
        return _Steps(self.transaction)


class SinkPlaces(StreamTransactions):
    def __getitem__(self, seq: int) -> StreamTransaction:
        return SinkPlace(*super().__getitem__(seq).made_of)


class SinkSourceStream:
    """As `SourceStream`, from the position of a token on."""

    folds_names = False
    executed = tracked_from = None
    last_commit = 0

    def __init__(self, folder: Path, name: str, token: str | None = None) -> None:
        self._name = name
        _, at, steps = (token or "ticdc.0r.").split(".")
        step = CommitStep(int(at[:-1]), at.endswith("d"))
        self._given = {step: numbers_of(steps[:-SEAL_LETTERS])[0]} if steps else {}
        # Inside of a commit: it is read again, and what the reader has of it is skipped.
        self._at = (CommitStep(step.ts) if step.is_ddl else CommitStep(step.ts - 1, is_ddl=True)) if steps else step
        contents = read_contents(str(folder))
        self._history = SinkHistory.of(contents.schema_files)
        settings = CsvSettings(time_zone="UTC")
        self._windows = SinkWindows(contents, self._history, settings, self._at, limits=LIMITS)
        self._stamps: dict[int, int] = {}

    @property
    def position(self) -> SourcePosition:
        return SourcePosition(self._name, CommitTs(self._name, self._at))

    def read(self) -> Generator[ChosenTransactions | None]:
        for window in self._windows.windows():
            if window.steps:
                columns = SinkColumns(window)
                self._stamps |= {window.first_seq + at: step.ts for at, step in enumerate(window.steps)}
                along = Along(self._name, "", SinkPositions(self._name, self._at, window.steps), {})
                places = SinkPlaces(along, SinkItem(columns), np.arange(len(columns)))
                given = {
                    columns.first_seq + at: self._given[s] for at, s in enumerate(window.steps) if s in self._given
                }
                yield ChosenTransactions(SinkChanges(window), places, given)
                self._at = window.steps[-1]
            yield None

    def close(self) -> None:
        """Nothing is open."""

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        ts = max(self._stamps.values()) if seq is None else self._stamps[seq]
        versions = self._history.tables.get(f"{table.database}/{table.table}")
        valid = versions and versions.valid_at(ts)
        if valid is None:
            raise SchemaGapError("the sink has no version of the table", table=str(table))
        return valid.definition
