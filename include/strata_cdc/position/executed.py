"""Positions that count GTIDs, of the family that a text or a stream shows.
Not here: the families themselves (`sets.py`, `domains.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from strata_cdc.position.domains import DomainSet
from strata_cdc.position.sets import DOMAIN_GTID, DomainWriter, GtidSet, GtidSetBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.position.domains import DomainSetBuilder
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid, Sid, Span

NOTHING: Final[Executed] = GtidSet()
"""Before the first transaction of any family: it is below every position, and its union with one is that one."""


def parse_executed(text: str) -> Executed:
    """Reads what a server prints as its executed transactions, and what is stored of it: a GTID set of MySQL, or the
    position of MariaDB's domains. The text of nothing is empty in both families.

    Raises:
        InvalidGtidSetError: The text is of neither form.
    """
    return DomainSet.parse(text) if DOMAIN_GTID.fullmatch(text.partition(",")[0]) else GtidSet.parse(text)


def is_executed(position: object) -> TypeGuard[Executed]:
    """Whether a position counts GTIDs, of any family."""
    return isinstance(position, GtidSet | DomainSet)


def has_commit_times(position: object) -> bool:
    """Whether the log of the servers that count so has the times of commits, by the clock of the server, which no
    session can set. Not that of MariaDB."""
    return not isinstance(position, DomainSet)


def executed_of(spans: Iterable[tuple[Sid | DomainWriter, Span]]) -> Executed:
    """The position with these transactions alone.

    Raises:
        InvalidGtidSetError: They are of two families.
    """
    builder = ExecutedBuilder()
    for sid, span in spans:
        builder.add_span(sid, span)
    return builder.build()


class ExecutedBuilder:
    """A position that grows along a stream, of the family of what it begins with or of its first transaction."""

    def __init__(self, start: Executed = NOTHING) -> None:
        self._builder: GtidSetBuilder | DomainSetBuilder | None = start.builder() if start else None

    def add(self, gtid: Gtid) -> None:
        """Adds a transaction; a transaction that it already contains changes nothing.

        Raises:
            InvalidGtidSetError: It is of another family than those before it.
        """
        self._of_family(gtid.sid).add(gtid)

    def add_span(self, sid: Sid | DomainWriter, span: Span) -> None:
        """Adds the transactions from the first to the last number of `span`. Raises as `add`."""
        self._of_family(sid).add_span(sid, span)

    def contains(self, gtid: Gtid) -> bool:
        """Whether it contains this one transaction by now."""
        return self._builder is not None and self._builder.contains(gtid)

    def overlaps(self, sid: Sid | DomainWriter, span: Span) -> bool:
        """Whether it contains any of the transactions of `span` by now."""
        return self._builder is not None and self._builder.overlaps(sid, span)

    def build(self) -> Executed:
        """The position as it is now."""
        return self._builder.build() if self._builder is not None else NOTHING

    def _of_family(self, sid: Sid | DomainWriter) -> GtidSetBuilder | DomainSetBuilder:
        if self._builder is None:
            self._builder = (DomainSet() if isinstance(sid, DomainWriter) else NOTHING).builder()
        return self._builder
