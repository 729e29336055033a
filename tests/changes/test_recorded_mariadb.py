"""Recorded binlogs of MariaDB, each of a kind at which other readers have failed: the rows that come of a file are
those that a SELECT gave when it was recorded (`record_mariadb.py`). No server is needed.

Not here: a replica that became the primary, and a transaction that became a file (`test_landing_mariadb.py`)."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.cli.main import run
from tests.changes.record_mariadb import FOLDER, MORE, STATEMENTS
from tests.mariadb_server import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CASES = (*STATEMENTS, *MORE)
_NOW = ("2106-", "2038-")
"""How the end of a current row of a system-versioned table begins."""


BY_ALTER: dict[str, dict[str, object]] = {
    "rolled_back_alter": {"c": 8},
    "rows_beside_an_alter": {"b": 7},
    "rows_beside_a_copy": {"b": 7},
}
"""What rows that were there before an ALTER have in its columns: changes have the columns of their time."""


class Event(NamedTuple):
    """An event's header, and its bytes."""

    kind: int
    server: int
    end: int
    data: bytes


def events_of(path: Path) -> Iterator[Event]:
    """The events of a file, read without the code under test."""
    data, at = path.read_bytes(), 4
    while at < len(data):
        _, kind, server, length, end, _ = struct.unpack_from("<IBIIIH", data, at)
        yield Event(kind, server, end, data[at : at + length])
        at += length


def decoded(path: Path, out: Path) -> list[dict[str, Any]]:
    assert run(["decode", str(path), "--out", str(out), "--format", "jsonl", "--table", "d.*"]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def left(changes: list[dict[str, Any]]) -> dict[str, dict[object, dict[str, Any]]]:
    """The rows of each table after its changes, by their first column; a sequence has one row, and rows of the past
    are none."""
    tables: dict[str, dict[object, dict[str, Any]]] = {}
    for change in changes:
        rows = tables.setdefault(change["table"], {})
        before, after = change["before"] or {}, change["after"] or {}
        if not _is_current(before):
            continue
        old = rows.pop(before.get("id"), {}) if before else {}
        new = {**old, **after}
        if change["op"] != "delete" and _is_current(new):
            rows[new.get("id")] = new
    return tables


def _is_current(row: dict[str, Any]) -> bool:
    return row.get("row_end", _NOW[0]).startswith(_NOW)


@pytest.mark.parametrize("version", PREFIXES)
@pytest.mark.parametrize("case", CASES)
def test_what_is_left_is_what_a_select_gave(case: str, version: str, tmp_path: Path):
    path = FOLDER / version / f"{case}.binlog"
    truth: dict[str, list[dict[str, Any]]] = json.loads(path.with_suffix(".json").read_text())
    found = left(decoded(path, tmp_path / "rows.jsonl"))
    assert any(truth.values())
    for table, rows in truth.items():
        names, defaults = list(rows[0]) if rows else [], BY_ALTER.get(case, {})
        kept = [{name: row.get(name, defaults.get(name)) for name in names} for row in found.get(table, {}).values()]
        assert _sorted(kept) == _sorted(rows)


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def gtids_of(events: list[Event]) -> set[tuple[int, int]]:
    """Domain and server of each GTID."""
    gtids = [one for one in events if one.kind == EventType.DOMAIN_GTID]
    return {(int.from_bytes(one.data[27:31], "little"), one.server) for one in gtids}


def rows_before_alter(events: list[Event]) -> int:
    """Row events before the only ALTER."""
    [at] = (number for number, one in enumerate(events) if b"ALTER TABLE" in one.data)
    return sum(one.kind == EventType.WRITE_ROWS_V1 for one in events[:at])


CONTAINS: dict[str, Callable[[list[Event], str], bool]] = {
    "another_server_in_one_domain": lambda events, _: gtids_of(events) == {(0, 1), (0, 77), (9, 3), (0, 3)},
    "no_positions_in_a_group": lambda events, version: any(one.end == 0 for one in events) == (version != "10.11"),
    "compressed_events_now_and_then": lambda events, _: {23, 24, 166, 167} <= {one.kind for one in events},
    "rolled_back_alter": lambda events, _: sum(b"ADD UNIQUE (a)" in one.data for one in events) == 2,
    "rows_beside_an_alter": lambda events, _: sum(b"ALTER TABLE" in one.data for one in events) == 2,
    "rows_beside_a_copy": lambda events, version: (rows_before_alter(events) > 1) == (version != "10.11"),
}
"""What must be in a file of a case, by its events and the version."""


@pytest.mark.parametrize("version", PREFIXES)
@pytest.mark.parametrize("case", CONTAINS)
def test_the_file_is_of_the_kind_that_its_name_says(case: str, version: str):
    """A recording may not lose what it is about."""
    assert CONTAINS[case]([*events_of(FOLDER / version / f"{case}.binlog")], version)


@pytest.mark.parametrize("version", PREFIXES)
def test_rows_between_the_events_of_an_alter_have_the_columns_of_before(version: str, tmp_path: Path):
    path = FOLDER / version / "rows_beside_an_alter.binlog"
    events = [*events_of(path)]
    at = [number for number, one in enumerate(events) if b"ALTER TABLE" in one.data]
    rows = [number for number, one in enumerate(events) if one.kind == EventType.WRITE_ROWS_V1]
    between = sum(at[0] < number < at[1] for number in rows)
    before = sum(number < at[0] for number in rows)
    assert len(at) == 2
    assert between > 0
    with_b = ["b" in change["after"] for change in decoded(path, tmp_path / "rows.jsonl") if change["op"] == "insert"]
    assert with_b == [False] * (before + between) + [True] * (len(rows) - before - between)


@pytest.mark.parametrize("version", PREFIXES)
def test_an_alter_that_began_and_has_no_end(version: str, tmp_path: Path):
    """The server died in the work of an ALTER in two phases: the file ends somewhere after its first event."""
    path = FOLDER / version / "rows_beside_an_alter.binlog"
    events, data = [*events_of(path)], path.read_bytes()
    _, second = (number for number, one in enumerate(events) if b"ALTER TABLE" in one.data)
    gtid = max(number for number in range(second) if events[number].kind == EventType.DOMAIN_GTID)
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(data[: 4 + sum(len(one.data) for one in events[:gtid])])
    changes = decoded(cut, tmp_path / "rows.jsonl")
    assert len(changes) == sum(one.kind == EventType.WRITE_ROWS_V1 for one in events[:gtid])
    assert all(change["after"].keys() == {"id", "a"} for change in changes)
