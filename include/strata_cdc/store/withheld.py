"""Rows that are not published, table by table and interval by interval, with every reason that is known.
Not here: the states (`table_intervals.py`), the verdicts (`verdicts.py`), their files (`tables/quarantine.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.errors import ErrorFacts
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa


ASIDE: Final = "rows_can_be_decoded"
"""The check that fails by rows which the decoder put aside; its example is the error, as JSON."""


def _error_of(rule: FailedRule) -> str:
    return msgspec.json.decode(rule.examples[0], type=ErrorFacts).error


class WithheldInterval(Struct, frozen=True):
    """One table's part of one interval of which rows are withheld."""

    piece: TableInterval
    """FAILED or HELD."""
    failures: tuple[FailedRule, ...]
    """What the verdict of its run says of it, errors first; none where nothing was judged."""
    verdict: StoredVerdict | None
    """Of its run; None where there is none."""

    @property
    def rows(self) -> int:
        """That are not published."""
        return self.piece.rows - self.piece.published_rows

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, in a word each: the checks that failed, or the name of the error."""
        checks = [one.check for one in self.failures if one.severity == "error"]
        if self.piece.state is IntervalState.FAILED and checks:
            return tuple(dict.fromkeys(checks))
        known = [self.piece.reason.error] if self.piece.reason else []
        aside = [_error_of(one) for one in self.failures if one.check == ASIDE]
        return tuple(sorted({*known, *aside})) or ("unknown",)


def withheld(engine: sa.Engine, source: str) -> list[WithheldInterval]:
    """Everything of a source that waits for somebody, in order of time and table.

    Raises:
        StoreUnavailableError: The store does not answer.
    """
    pieces = TableIntervalLedger(engine).select(source, (IntervalState.FAILED, IntervalState.HELD))
    stored = VerdictLedger(engine).select(source, {piece.start for piece in pieces}) if pieces else []
    verdicts = {(one.start, one.table): one for one in stored}
    return [
        _withheld(piece, verdicts.get((piece.start, piece.full_name)), verdicts.get((piece.start, "")))
        for piece in pieces
    ]


def _withheld(piece: TableInterval, own: StoredVerdict | None, whole: StoredVerdict | None) -> WithheldInterval:
    mine: Sequence[StoredVerdict] = [one for one in (own, whole) if one is not None and one.details.run == piece.run]
    failures = sorted(
        (rule for one in mine for rule in one.details.failures), key=lambda rule: rule.severity != "error"
    )
    return WithheldInterval(piece, tuple(failures), own if own in mine else None)
