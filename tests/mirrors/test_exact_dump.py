"""Chunks that were read at random moments, with random transactions visible, and what the changes make of them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.mirrors.dump.exact import NotRepeatableError, exact_rows
from strata_cdc.mirrors.dump.folder import DumpFolder
from strata_cdc.mirrors.dump.limits import DumpLimits
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.tables.convert import state_schema
from tests.tables.changes import changes

if TYPE_CHECKING:
    from pathlib import Path

DEFINITION = TableDefinition(
    (Column("k", "varchar(9)", False, "utf8mb4"), Column("v", "int"), Column("w", "int")),
    (Key("PRIMARY", KeyKind.PRIMARY, (KeyPart("k"),)),),
)
FIELDS = {field.name: field.type for field in state_schema(DEFINITION)}
KEYS = [letter + digit for letter in "aAbBcC" for digit in "01"]


class Server:
    """A table whose key ignores case, and all transactions that changed it."""

    def __init__(self, draw: random.Random, *, minimal: bool) -> None:
        self.draw, self.minimal = draw, minimal
        self.log: list[list[dict[str, Any]]] = []
        self.rows: dict[str, dict[str, Any]] = {}
        for _ in range(draw.randint(1, 25)):
            self.log.append([change for _ in range(draw.randint(1, 3)) for change in self.change()])

    def change(self) -> list[dict[str, Any]]:
        key, value = self.draw.choice(KEYS), {"v": self.draw.randint(0, 9), "w": self.draw.randint(0, 9)}
        row = self.rows.get(key.casefold())
        if row is None:
            return [self.put(None, {"k": key, **value})]
        match self.draw.randint(0, 4):
            case 0:
                return [self.take(row)]
            case 1:
                return [self.take(row), self.put(None, {"k": key, **value})]
            case 2:
                other = self.draw.choice(KEYS)
                is_free = other.casefold() == row["k"].casefold() or other.casefold() not in self.rows
                if is_free and not self.minimal:
                    return [self.put(row, {**row, "k": other})]
        return [self.put(row, {**row, self.draw.choice("vw"): value["v"]})]

    def take(self, row: dict[str, Any]) -> dict[str, Any]:
        del self.rows[row["k"].casefold()]
        return {"op": "delete", "before": row}

    def put(self, before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
        if before is not None:
            del self.rows[before["k"].casefold()]
        self.rows[after["k"].casefold()] = after
        return {"op": "insert" if before is None else "update", "before": before, "after": after}

    def state(self, seen: list[int]) -> dict[str, dict[str, Any]]:
        """The rows after some of the transactions, by their folded keys."""
        rows: dict[str, dict[str, Any]] = {}
        for number in seen:
            for change in self.log[number]:
                if change["before"] is not None:
                    assert rows.pop(change["before"]["k"].casefold()) == change["before"]
                if change.get("after") is not None:
                    assert change["after"]["k"].casefold() not in rows
                    rows[change["after"]["k"].casefold()] = change["after"]
        return rows

    def touched(self, number: int) -> set[str]:
        images = [change.get(name) for change in self.log[number] for name in ("before", "after")]
        return {image["k"].casefold() for image in images if image}

    def visible(self, low: int, high: int) -> list[int]:
        """What a read may see that began when all in front of `low` were executed, and none from `high` on written: who
        changes a row waits for whoever changed it before."""
        found, hidden = list(range(low)), set()
        for number in range(low, high):
            if self.touched(number) & hidden or self.draw.random() < 0.4:
                hidden |= self.touched(number)
            else:
                found.append(number)
        return found

    def changes(self, low: int, high: int) -> pa.Table:
        rows = [
            {**self.logged(change), "seq": number + 1, "row": at}
            for number in range(low, high)
            for at, change in enumerate(self.log[number])
        ]
        return pa.Table.from_batches([changes(FIELDS, rows).batch])

    def logged(self, change: dict[str, Any]) -> dict[str, Any]:
        """As the server logs it, whole or with MINIMAL images."""
        if not self.minimal or change["op"] != "update":
            return change
        before, after = change["before"], change["after"]
        changed = {name: value for name, value in after.items() if value != before[name]}
        lacking = [name for name in after if name not in changed] + ["_before.v", "_before.w"]
        return {"op": "update", "before": {"k": before["k"]}, "after": changed, "missing": lacking}


def read(server: Server, draw: random.Random) -> tuple[list[pa.RecordBatch], int, int]:
    """Chunks at random moments; the lowest of the certain ends, the highest of the possible ones."""
    borders = sorted(draw.sample(sorted({key.casefold() for key in KEYS}), draw.randint(0, 3)))
    batches, lows, highs = [], [], []
    for first, last in zip(["", *borders], [*borders, "~"], strict=True):
        low = draw.randint(0, len(server.log))
        high = draw.randint(low, len(server.log))
        rows = server.state(server.visible(low, high))
        found = [row for key, row in rows.items() if first <= key < last]
        batches.append(pa.RecordBatch.from_pylist(found, schema=state_schema(DEFINITION)))
        lows.append(low)
        highs.append(high)
    return batches, min(lows), max(highs)


def by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: row[name] for name in FIELDS} for row in rows), key=lambda row: row["k"])


@pytest.mark.parametrize("minimal", [False, True])
@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 48))
def test_chunks_of_any_moments_become_the_table_at_one(minimal: bool, seed: int) -> None:
    draw = random.Random(seed)
    server = Server(draw, minimal=minimal)
    batches, low, high = read(server, draw)
    assert by_key(exact(batches, server.changes(low, high))) == by_key(list(server.state(list(range(high))).values()))


@pytest.mark.parametrize("minimal", [False, True])
def test_changes_that_do_not_fit_into_memory(tmp_path: Path, minimal: bool) -> None:
    folder = DumpFolder(str(tmp_path), "s", TableName("d", "t"))
    put_aside = 0
    for parts in (2, 16):
        # With few marks rows are put aside that nothing has changed.
        few = DumpLimits(held_bytes=1, batch_rows=3, aside_bytes=300, parts=parts, marks=4 * parts)
        for seed in range(12):
            draw = random.Random(seed)
            server = Server(draw, minimal=minimal)
            batches, low, high = read(server, draw)
            logged = server.changes(low, high)
            cuts = [0, *sorted(draw.choices(range(logged.num_rows + 1), k=6)), logged.num_rows]
            pieces = [batch for a, b in pairwise(cuts) for batch in logged.slice(a, b - a).to_batches()]
            found = pa.concat_tables(exact_rows(batches, pieces, DEFINITION, folder, few)).to_pylist()
            assert by_key(found) == by_key(list(server.state(list(range(high))).values()))
            put_aside += len(pieces) > 1
            assert not list(tmp_path.rglob("aside-*"))
    assert put_aside > 10


def exact(batches: list[pa.RecordBatch], logged: pa.Table) -> list[dict[str, Any]]:
    """With changes that fit into memory: no folder is asked for."""
    return pa.concat_tables(exact_rows(batches, logged.to_batches(), DEFINITION, None)).to_pylist()  # type: ignore[arg-type]


def test_without_the_changes_they_are_not() -> None:
    wrong = 0
    for seed in range(30):
        draw = random.Random(seed)
        server = Server(draw, minimal=False)
        batches, _, high = read(server, draw)
        found = [row for batch in batches for row in batch.to_pylist()]
        wrong += by_key(found) != by_key(list(server.state(list(range(high))).values()))
    assert wrong > 10


REFUSED = {
    "another key": {"op": "update", "before": {"k": "a"}, "after": {"k": "b"}, "missing": ["v", "w", "_before.v"]},
    "have defaults": {"op": "insert", "after": {"k": "a"}, "missing": ["d"]},
    "partial updates of JSON": {
        "op": "update", "before": {"k": "a"}, "after": {"k": "a"}, "invalid": [("j", "{}")], "missing": None,
    },
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_changes_that_must_not_be_repeated_are_refused(reason: str) -> None:
    columns = (*DEFINITION.columns, Column("d", "int", default="7"), Column("j", "json"))
    definition = TableDefinition(columns, DEFINITION.keys)
    fields = {field.name: field.type for field in state_schema(definition)}
    logged = pa.Table.from_batches([changes(fields, [REFUSED[reason]]).batch])
    with pytest.raises(NotRepeatableError, match=reason):
        list(exact_rows([], logged.to_batches(), definition, None))  # type: ignore[arg-type]  # nothing is put aside


def test_a_table_without_a_key_is_refused_if_it_was_changed() -> None:
    definition = TableDefinition(DEFINITION.columns)
    logged = pa.Table.from_batches([changes(FIELDS, [{"op": "insert", "after": {"k": "a"}}]).batch])
    with pytest.raises(NotRepeatableError, match="no key"):
        list(exact_rows([], logged.to_batches(), definition, None))  # type: ignore[arg-type]  # nothing is put aside
