"""Whose value each column of a row has: the change or the DDL that gave it, through renames and changes of the type.
Not here: the row's changes (`row_history.py`), its rows in mirrors (`table_at.py`), text (`row_texts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.past.row_history import HistoryChange, HistoryEvent
from strata_cdc.past.timeline import UnknownChanges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.past.row_history import HistoryLine
    from strata_cdc.past.row_values import KnownValue
    from strata_cdc.past.timeline import ChangeSpan

Row = dict[str, Any]


class Blame(Struct, frozen=True):
    """One value of a row, and what gave it."""

    column: str
    value: Any
    """As JSON has it."""
    cause: HistoryChange | HistoryEvent | None
    """The change of the row, or the statement on its table; None: the row had the value before the changes begin."""
    doubt: str | None = None
    """Why something else may have given it."""


class _ValueSoFar(Struct):
    """What is known of one value so far."""

    cause: HistoryChange | HistoryEvent | None
    value: Any = None
    has_value: bool = False
    is_known: bool = False
    """Whether the value is the one of now, not the one before `later`."""
    doubt: str | None = None
    later: HistoryChange | HistoryEvent | None = None
    """A DDL, or an update without the columns that the server computes, which may have changed the value since, if what
    it became is not known."""


class RowBlame:
    """The values of one row at the end of its changes.

    Args:
        lines: The history of the row (`history_of_key`), with all events of its table.
        unlogged: Why the log may lack some changes of the row; None if it has all.
    """

    def __init__(self, lines: Iterable[HistoryLine], unlogged: str | None = None) -> None:
        self._by_id: dict[int, _ValueSoFar] = {}
        self._may_be_gone = False
        """Whether rows of partitions were removed or exchanged since its last change."""
        for line in lines:
            if isinstance(line, UnknownChanges):
                self._doubt(line.reason)
            elif isinstance(line, HistoryEvent):
                self._take_event(line)
            else:
                self._take_change(line)
        if unlogged is not None:
            self._doubt(unlogged)

    def values(self, span: ChangeSpan, row: Callable[[], Row | None]) -> list[Blame] | None:
        """Each value, in the order of the columns; None if there is no such row.

        Args:
            span: The version of the row at the end.
            row: Gives the row at the end as JSON values, from the mirror; called if the changes do not show all values.
                None: there is no such row.

        Raises:
            StrataError: What `row` raises.
        """
        given = {number: self._by_id.get(number) for number in span.ids}
        is_complete = all(state is not None and state.is_known for state in given.values())
        needs_row = self._may_be_gone or not is_complete
        current = row() if needs_row else None
        if needs_row and current is None:
            return None
        blames = []
        for column, number in span.ids_by_name.items():
            state = given[number] or _ValueSoFar(None)
            value = state.value if current is None else current[column]
            if state.later is not None or not state.is_known:
                _resolve(state, value)
            blames.append(Blame(column, value, state.cause, state.doubt))
        return blames

    def _take_change(self, line: HistoryChange) -> None:
        self._may_be_gone = False
        if line.op != "update":
            self._by_id = {}
        for column, number in line.span.ids_by_name.items():
            if number in line.computed:
                unlogged = self._by_id.setdefault(number, _ValueSoFar(None))
                unlogged.later, unlogged.is_known = line, False
                continue
            state = self._by_id.get(number)
            if state is not None and state.later is not None and column in (line.before or {}):
                _resolve(state, (line.before or {})[column])
            changed = line.changed.get(column)
            if changed is not None:
                known = changed.after
                self._by_id[number] = _given(line, known)
                continue
            image = {**(line.before or {}), **(line.after or {})}
            if line.after is not None and column in image:
                state = self._by_id.setdefault(number, _ValueSoFar(None))
                state.value, state.has_value, state.is_known = image[column], True, True

    def _take_event(self, line: HistoryEvent) -> None:
        event = line.event
        if event.removes_all:
            self._by_id = {}
            return
        effect = event.effect
        self._may_be_gone |= effect is not None and bool(effect.partitions)
        for altered in line.altered:
            if altered.is_new:
                self._by_id[altered.id] = _given(line, altered.after)
                continue
            former = self._by_id.setdefault(altered.id, _ValueSoFar(None))
            former.later, former.is_known = line, False
            if altered.after is not None:
                _resolve(former, altered.after.shown)

    def _doubt(self, reason: str) -> None:
        for state in self._by_id.values():
            state.doubt = reason


def _given(cause: HistoryChange | HistoryEvent, known: KnownValue | None) -> _ValueSoFar:
    return _ValueSoFar(cause) if known is None else _ValueSoFar(cause, known.shown, has_value=True, is_known=True)


def _resolve(given: _ValueSoFar, value: Any) -> None:
    """The later statement gave the value if it is another one than before."""
    if not given.has_value and given.later is not None:
        given.doubt = "a later statement may have converted it"
    elif given.has_value and _text(given.value) != _text(value):
        given.cause, given.doubt = given.later, None
    given.value, given.has_value, given.is_known, given.later = value, True, True, None


def _text(value: Any) -> str | None:
    """Numbers that become texts stay as they are."""
    return None if value is None else str(value)
