"""Compares rows of the lake with rows of the server, by key, or as multisets if there is no key.
Not here: where they come from (`lake_rows.py`, `server_rows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.quality.checks.sensitive import MASK
from strata_cdc.quality.reconcile.report import RowDifference, Side
from strata_cdc.tables.layout import column_name
from strata_cdc.tables.state import row_codes
from strata_cdc.tables.verbatim import column_of_verbatim, exact_names, own_texts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from strata_cdc.quality.reconcile.lake_rows import LakeRows

    Codes = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class ComparedTable(Struct, frozen=True):
    """What came of it."""

    compared: int
    different: int
    changed: int
    not_covered: int
    partial: int
    differences: tuple[RowDifference, ...]

    def plus(self, other: ComparedTable, shown: ShownRows) -> ComparedTable:
        """Of two parts of a table together."""
        return ComparedTable(
            self.compared + other.compared,
            self.different + other.different,
            self.changed + other.changed,
            self.not_covered + other.not_covered,
            self.partial + other.partial,
            (*self.differences, *other.differences)[: shown.most],
        )


NOTHING = ComparedTable(0, 0, 0, 0, 0, ())


class ShownRows(Struct, frozen=True):
    """What may be shown of rows that differ."""

    most: int = 20
    """Rows."""
    hidden: frozenset[str] = frozenset()
    """Columns, as the change table calls them, whose values nobody may see."""


def compare_by_key(
    lake: LakeRows, server: pa.Table, requested_keys: pa.Table | None, shown: ShownRows
) -> ComparedTable:
    """Rows with a primary key.

    Args:
        lake: By its changes.
        server: Rows of the server; a row may be there more than once, as it was read more than once.
        requested_keys: Keys that the server was queried for; None if it was for all. Rows of the lake with other keys
            are skipped if the server did not give them.
        shown: What may be shown.
    """
    definition = lake.state.definition
    key = list(exact_names(definition, [column_name(name) for name in definition.primary_key]))
    sides = _NumberedKeys(lake, server, requested_keys, key)
    hidden = sides.touched | sides.partial
    judged = ~hidden & (sides.in_server | sides.expected) & (sides.in_lake | sides.in_server)
    uncovered = judged & ~sides.in_lake & ~sides.known
    judged &= ~uncovered
    odd = judged & (sides.twice | ~(sides.in_lake & sides.in_server & sides.equal))
    return ComparedTable(
        compared=int(judged.sum()),
        different=int(odd.sum()),
        changed=int((sides.touched & (sides.in_lake | sides.in_server)).sum()),
        not_covered=int(uncovered.sum()),
        partial=int((sides.partial & ~sides.touched & sides.in_server).sum()),
        differences=tuple(sides.differences(sides.chosen(odd, shown.most), shown.hidden)),
    )


class _NumberedKeys:
    """All keys that occur, numbered; an entry of each array is about one of them."""

    def __init__(self, lake: LakeRows, server: pa.Table, table: pa.Table | None, key: list[str]) -> None:
        self._lake, self._server = lake.state.rows, server
        self._key = [name for name in key if column_of_verbatim(name) is None]
        others = [lake.touched, lake.known, lake.partial, table]
        parts = [lake.state.rows.select(key), server.select(key), *(other for other in others if other is not None)]
        codes = row_codes(pa.concat_tables(parts))
        count = int(codes.max(initial=-1)) + 1
        ends = iter(np.split(codes, np.cumsum([part.num_rows for part in parts])[:-1]))
        in_lake, in_server = next(ends), next(ends)
        self._lake_at, self._server_at = _places(in_lake, count), _places(in_server, count)
        self.in_lake, self.in_server = self._lake_at >= 0, self._server_at >= 0
        self.twice = np.bincount(in_lake, minlength=count) > 1
        """The lake has several rows of the key."""
        flags = [None if other is None else _flags(next(ends), count) for other in others]
        everything, nothing = np.ones(count, bool), np.zeros(count, bool)
        self.touched = nothing if flags[0] is None else flags[0]
        self.known = everything if flags[1] is None else flags[1]
        self.partial = nothing if flags[2] is None else flags[2]
        self.expected = everything if flags[3] is None else flags[3]
        """The server would have given the row if it had it."""
        self.equal = self._equal(count)

    def _equal(self, count: int) -> Flags:
        both = np.flatnonzero(self.in_lake & self.in_server)
        mine = self._lake.take(pa.array(self._lake_at[both]))
        theirs = self._server.take(pa.array(self._server_at[both]))
        codes = row_codes(pa.concat_tables([mine, theirs]))
        equal = np.zeros(count, bool)
        equal[both] = codes[: len(both)] == codes[len(both) :]
        return equal

    def chosen(self, odd: Flags, most: int) -> Codes:
        """Some of the keys whose rows differ, of each kind of difference if there is one."""
        kinds = (
            odd & self.twice,
            odd & ~self.twice & self.in_lake & self.in_server,
            odd & ~self.twice & ~self.in_server,
            odd & ~self.in_lake,
        )
        places_of_kinds = [np.flatnonzero(kind)[:most] for kind in kinds]
        ranks = np.concatenate([np.arange(len(group)) for group in places_of_kinds])
        return np.concatenate(places_of_kinds)[np.argsort(ranks, kind="stable")][:most]

    def differences(self, numbers: Codes, hidden: Collection[str]) -> Iterator[RowDifference]:
        """The rows of some keys."""
        for number in numbers:
            mine = _row(self._lake, int(self._lake_at[number]))
            theirs = _row(self._server, int(self._server_at[number]))
            if self.twice[number]:
                yield RowDifference(Side.DOUBLED, masked(mine or {}, self._key, hidden))
            else:
                yield _difference(self._key, mine, theirs, hidden)


def _places(codes: Codes, count: int) -> Codes:
    code_at = np.full(count, -1, np.int64)
    code_at[codes] = np.arange(len(codes))
    return code_at


def _flags(codes: Codes, count: int) -> Flags:
    flags = np.zeros(count, bool)
    flags[codes] = True
    return flags


def _row(rows: pa.Table, at: int) -> dict[str, Any] | None:
    found_rows: list[dict[str, Any]] = rows.slice(at, 1).to_pylist() if at >= 0 else []
    return own_texts(found_rows[0]) if found_rows else None


def _difference(
    key: list[str], mine: dict[str, Any] | None, theirs: dict[str, Any] | None, hidden: Collection[str]
) -> RowDifference:
    side = Side.DIFFERS if mine and theirs else Side.ONLY_LAKE if mine else Side.ONLY_SERVER
    names = [name for name in mine or theirs or {} if mine is None or theirs is None or mine[name] != theirs[name]]
    # Where one side has no such row, its key and all else are on the other.
    names = [name for name in names if name not in key] if side is not Side.DIFFERS else names
    return RowDifference(
        side,
        masked(mine or theirs or {}, key, hidden),
        None if mine is None else masked(mine, names, hidden),
        None if theirs is None else masked(theirs, names, hidden),
    )


def masked(row: dict[str, Any], names: Collection[str], hidden: Collection[str]) -> dict[str, Any]:
    """Some columns of a row as they may be shown."""
    return {name: MASK if name in hidden and row[name] is not None else _plain(row[name]) for name in names}


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value if isinstance(value, str | int | float | bool | list | None) else str(value)


def compare_multisets(lake: LakeRows, server: pa.Table, shown: ShownRows) -> ComparedTable:
    """Rows without a key: how often each is there."""
    rows = pa.concat_tables([lake.state.rows, server])
    codes = row_codes(rows)
    mine = lake.state.rows.num_rows
    size = int(codes.max(initial=-1)) + 1
    surplus = np.bincount(codes[:mine], minlength=size) - np.bincount(codes[mine:], minlength=size)
    first = _places(codes[::-1], size)
    odd = np.flatnonzero(surplus)
    differences = []
    for number in odd[: shown.most]:
        row = _row(rows, len(codes) - 1 - int(first[number])) or {}
        side = Side.ONLY_LAKE if surplus[number] > 0 else Side.ONLY_SERVER
        differences.append(RowDifference(side, masked(row, row.keys(), shown.hidden)))
    return ComparedTable(max(mine, server.num_rows), int(np.abs(surplus).sum()), 0, 0, 0, tuple(differences))


def doubled(rows: pa.Table, shown: ShownRows) -> tuple[RowDifference, ...]:
    """Changes that are there twice."""
    examples = map(own_texts, rows.slice(0, shown.most).to_pylist())
    return tuple(RowDifference(Side.DOUBLED, masked(row, row.keys(), shown.hidden)) for row in examples)
