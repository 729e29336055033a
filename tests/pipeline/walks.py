"""Counts the walks over the bytes of binlogs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.bytes import frames
from strata_cdc.binlog.events import scanner
from strata_cdc.changes import blocks
from tests.interposed import interposed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Walks:
    """The bytes that each kernel has walked over, in any thread."""

    def __init__(self) -> None:
        """None so far."""
        self._headers: list[int] = []
        self._checksums: list[int] = []
        self._transactions: list[int] = []
        self._rows: list[int] = []

    def scan(self, function: Callable[..., Any], buffer: Any, begin: int, *rest: Any) -> Any:
        """A walk over headers."""
        found = function(buffer, begin, *rest)
        self._headers.append(int(found[2]) - begin)
        return found

    def verify(self, function: Callable[..., Any], tables: Any, buffer: Any, positions: Any, lengths: Any) -> Any:
        """A walk that computes checksums."""
        self._checksums.append(int(lengths.sum()))
        return function(tables, buffer, positions, lengths)

    def group(self, function: Callable[..., Any], buffer: Any, events: Any, first: int, *rest: Any) -> Any:
        """A walk over transactions."""
        found = function(buffer, events, first, *rest)
        self._transactions.append(int(events.lengths[first : found[1]].sum()))
        return found

    def walk(self, function: Callable[..., Any], buffer: Any, base: int, trailer: int, events: Any, tables: Any) -> Any:
        """A walk over rows."""
        state = tables.state[0]
        begin = int(state.event)
        found = function(buffer, base, trailer, events, tables)
        self._rows.append(int(events.lengths[begin : int(state.event)].sum()))
        return found

    def of(self, size: int) -> tuple[float, float, float, float]:
        """How many times headers, checksums, transactions and rows of `size` bytes were walked over."""
        headers, checksums, transactions, rows = (
            sum(walked) / size for walked in (self._headers, self._checksums, self._transactions, self._rows)
        )
        return headers, checksums, transactions, rows


@contextmanager
def counted_walks() -> Iterator[Walks]:
    """Counts within the block."""
    walks = Walks()
    with (
        interposed(walks.scan, (frames, "scan_events")),
        interposed(walks.verify, (frames, "verify_events")),
        interposed(walks.group, (scanner, "group_events")),
        interposed(walks.walk, (blocks, "walk_events")),
    ):
        yield walks
