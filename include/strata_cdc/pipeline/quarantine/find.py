"""What is in quarantine: rows that were withheld, why, and where they are kept.
Not here: the ledgers (`store/withheld.py`), deciding on them (`decide.py`), showing them (`cli/quarantine.py`)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.landing.landed import LandedStream
from strata_cdc.runs.verdict import IntervalVerdict
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import matches
from strata_cdc.selection.wanted import folds_names, unmatched_patterns
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.withheld import WithheldInterval, withheld
from strata_cdc.tables.quarantine import quarantine_folder, read_reason

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.tables.write import StagedFile


class QuarantineFilter(Struct, frozen=True):
    """Which of it is meant. Nothing given: all."""

    tables: tuple[str, ...] = ()
    """Patterns of `database.table`."""
    at: int | None = None
    """The interval that has this commit time (microseconds UTC)."""
    reason: str | None = None
    """Pattern of a reason, as `WithheldInterval.reasons` has them."""


class InQuarantine(Struct, frozen=True):
    """One table's part of one interval."""

    withheld: WithheldInterval
    end: int
    """Of the interval, microseconds UTC, exclusive."""
    folder: str
    """Where its rows are kept, if any are."""
    judged: tuple[StagedFile, ...]
    """Its rows that were checked, where the checks failed."""
    aside: tuple[StagedFile, ...]
    """Its rows that the decoder put aside."""

    @property
    def kept_rows(self) -> int:
        """That are in quarantine."""
        return sum(file.rows for file in (*self.judged, *self.aside))


def find(source: Source, engine: sa.Engine, selection: QuarantineFilter) -> list[InQuarantine]:
    """The withheld rows of a source, in order of time and table.

    Raises:
        Usage: A pattern matches no table.
        StoreUnavailableError: The store does not answer.
        LakeUnavailableError: The lake does not.
        DamagedFileError: A reason in quarantine is not whole.
    """
    unmatched_patterns(source, engine, LandedStream.open(source.lake, source.name), selection.tables)
    folded = folds_names(source.name, engine)
    ends = {interval.start: interval.end for interval in IntervalLedger(engine).all(source.name)}
    kept: dict[str, tuple[StagedFile, ...]] = {}
    entries = []
    for rows in withheld(engine, source.name):
        end = ends[rows.table_interval.start]
        if _is_meant(rows, end, selection, folded=folded):
            folder = quarantine_folder(
                source.lake, source.name, rows.table_interval.start, rows.table_interval.run or ""
            )
            if folder not in kept:
                reason = read_reason(folder, IntervalVerdict)
                kept[folder] = () if reason is None else reason.files
            name = rows.table_interval.database, rows.table_interval.table
            mine = [file for file in kept[folder] if (file.database, file.table) == name]
            judged = tuple(file for file in mine if file.is_publishable)
            aside = tuple(file for file in mine if not file.is_publishable)
            entries.append(InQuarantine(rows, end, folder, judged, aside))
    return entries


def _is_meant(interval: WithheldInterval, end: int, selection: QuarantineFilter, *, folded: bool) -> bool:
    name = TableName(interval.table_interval.database, interval.table_interval.table)
    return (
        (not selection.tables or matches(name, selection.tables, folded=folded))
        and (selection.at is None or interval.table_interval.start <= selection.at < end)
        and (selection.reason is None or any(fnmatchcase(reason, selection.reason) for reason in interval.reasons))
    )
