"""The history, the blame and the differences of rows agree with what SELECT showed after each transaction of a random
life: rows that get other keys, columns and tables that get other names, TRUNCATE, DROP and CREATE between."""

from __future__ import annotations

from base64 import b64decode
from decimal import Decimal
from itertools import groupby, pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import Usage
from strata_cdc.past.row_history import HistoryChange, HistoryEvent
from strata_cdc.past.rows import PastRows
from strata_cdc.schema.model.definition import TableName
from tests.past.past_world import PastWorld
from tests.past.random_rows import Moment, RandomTable
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from strata_cdc.past.row_history import HistoryLine
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

ROUNDS, STEPS, KEYS = 4, 30, 12
Values = dict[str, tuple[str | None, str | None]]


@pytest.mark.parametrize("seed", seeds())
def test_rows_agree_with_the_server(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world, random = PastWorld(server, tmp_path), Random(seed)
    table = RandomTable(world, random)
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            table.step()
        world.publish()
        if random.random() < 0.6:
            world.update()
    world.update()
    with PastRows(world.readable) as rows:
        judge_histories(rows, table.moments)
        for at in random.sample(range(len(table.moments)), 8):
            judge_blames(rows, table, at)
        for _ in range(8):
            judge_diff(rows, table, *sorted(random.sample(range(len(table.moments)), 2)))


# Histories ----------------------------------------------------------------------------------------


def judge_histories(rows: PastRows, moments: list[Moment]) -> None:
    """Of each key, with the name that the table has at the end."""
    name = last_name(moments)
    own = of_table(moments, name)
    for key in range(KEYS + 3):
        lines = list(rows.history(TableName("shop", name), [str(key)]))
        wanted = expected(own, str(key))
        assert by_transaction(lines) == wanted, f"key {key} of {name}"
        for line in lines:
            if isinstance(line, HistoryChange):
                then = next(moment for moment in moments if moment.seq == line.seq)
                assert line.statement.text in then.statement.split("; "), line
                assert line.span.name == TableName("shop", then.table or "")


def last_name(moments: list[Moment]) -> str:
    """The last name of the table."""
    return next(moment.table for moment in reversed(moments) if moment.table is not None)


def of_table(moments: list[Moment], name: str) -> list[Moment]:
    """The moments of the table of this name, and of those that were dropped under the name with which it began."""
    tables: list[list[Moment]] = [[]]
    for moment in moments:
        tables[-1].append(moment)
        if moment.table is None:
            tables.append([])
    found: list[Moment] = []
    for own in reversed([one for one in tables if one]):
        names = [moment.table for moment in own if moment.table is not None]
        if names[-1] == name:
            found = own + found
            name = names[0]
        elif name in names:
            # It went on under another name.
            break
    return found


def expected(moments: list[Moment], key: str) -> list[Any]:
    """For each row that had the key, its changes by transaction: what happened, and the values by the names of then."""
    rows = sorted({row for one in moments for row, values in one.rows.items() if values[one.key] == key})
    return [list(changes_of(moments, row)) for row in rows]


def changes_of(moments: list[Moment], row: int) -> Iterable[tuple[int, str, Values]]:
    """The changes of one row, without DDL."""
    nothing = Moment(0, None, {}, {})
    for before, after in pairwise([nothing, *moments]):
        old, new = before.rows.get(row), after.rows.get(row)
        is_ddl = after.statement.split()[0] in {"ALTER", "RENAME", "TRUNCATE", "DROP", "CREATE"}
        if old is None and new is not None:
            yield after.seq, "insert", {after.columns[one]: (None, value) for one, value in new.items()}
        elif old is not None and new is None and not is_ddl:
            yield after.seq, "delete", {}
        elif old is not None and new is not None and not is_ddl and old != new:
            changed = {after.columns[one]: (old[one], new[one]) for one in new if old[one] != new[one]}
            yield after.seq, "update", changed


def by_transaction(lines: list[HistoryLine]) -> list[Any]:
    """The same from a history."""
    rows: dict[int, list[Any]] = {}
    changes = [line for line in lines if isinstance(line, HistoryChange)]
    assert [(line.seq, line.row) for line in changes] == sorted({(line.seq, line.row) for line in changes})
    for (number, seq), some in groupby(
        sorted(changes, key=lambda one: one.number), key=lambda one: (one.number, one.seq)
    ):
        together = list(some)
        values: Values = {}
        for line in together:
            assert not line.is_first
            for column, changed in line.changed.items():
                assert line.op == "insert" or changed.before is not None, (line, "the value before is known")
                before = None if changed.before is None else text(line, column, changed.before.shown)
                after = None if changed.after is None else text(line, column, changed.after.shown)
                values[column] = (values.get(column, (before, None))[0], after)
        op = "insert" if together[0].op == "insert" else "delete" if together[-1].op == "delete" else "update"
        net = {column: pair for column, pair in values.items() if op == "insert" or pair[0] != pair[1]}
        rows.setdefault(number, []).append((seq, op, net))
    return [rows[number] for number in sorted(rows)]


def text(line: HistoryChange | Any, column: str, value: Any) -> str | None:
    """A JSON value as the server prints it."""
    if value is None:
        return None
    definition = line.span.definition if isinstance(line, HistoryChange) else line
    found = definition.column(column)
    return b64decode(value).hex().upper() if "binary" in found.column_type else str(value)


# Blame --------------------------------------------------------------------------------------------


def judge_blames(rows: PastRows, table: RandomTable, at: int) -> None:
    """Of each row at a moment: the last transaction that gave each value is the one after which SELECT showed it."""
    now = table.moments[at]
    if now.table is None:
        return
    moments = table.moments[: at + 1]
    name = TableName("shop", now.table)
    keys = {values[now.key]: row for row, values in now.rows.items()}
    for key in range(KEYS + 3):
        row = keys.get(str(key))
        if row is None:
            with pytest.raises(Usage, match="no row has this key"):
                rows.blame(name, [str(key)], at=table.gtid_set(now.seq))
            continue
        found = rows.blame(name, [str(key)], at=table.gtid_set(now.seq))
        shown = {one.column: text(found.definition, one.column, one.value) for one in found.values}
        assert shown == {now.columns[one]: value for one, value in now.rows[row].items()}
        causes = {one.column: None if one.cause is None else seq_of(one.cause) for one in found.values}
        assert causes == {now.columns[one]: given_at(moments, row, one) for one in now.columns}, f"{key} at {now.seq}"
        assert not any(one.doubt for one in found.values)


def seq_of(cause: HistoryChange | HistoryEvent) -> int:
    """Its transaction."""
    return cause.seq if isinstance(cause, HistoryChange) else cause.event.seq


def given_at(moments: list[Moment], row: int, column: int) -> int:
    """The last transaction after which the value was another one than before."""
    nothing = Moment(0, None, {}, {})
    missing = object()
    return max(
        after.seq
        for before, after in pairwise([nothing, *moments])
        if before.rows.get(row, {}).get(column, missing) != after.rows.get(row, {}).get(column, missing)
    )


# Differences --------------------------------------------------------------------------------------


def judge_diff(rows: PastRows, table: RandomTable, first: int, second: int) -> None:
    """Of two moments, by the keys of the second one."""
    before, after = table.moments[first], table.moments[second]
    if after.table is None:
        return
    moments = (table.gtid_set(before.seq), table.gtid_set(after.seq))
    found = rows.diff(TableName("shop", after.table), since=moments[0], until=moments[1])
    then = before if after.key in before.columns else Moment(0, None, {}, {})
    old, new = ({values[one.key]: values for values in one.rows.values()} for one in (then, after))
    both = [column for column in after.columns if column in then.columns]
    wanted = {
        "removed": sorted(set(old) - set(new), key=str),
        "added": sorted(set(new) - set(old), key=str),
        "changed": sorted(
            (
                key,
                {
                    after.columns[one]: (old[key][one], new[key][one])
                    for one in both
                    if differs(old[key][one], new[key][one])
                },
            )
            for key in set(old) & set(new)
            if any(differs(old[key][one], new[key][one]) for one in both)
        ),
    }
    shown: dict[str, list[Any]] = {"removed": [], "added": [], "changed": []}
    for row in found.rows:
        (key,) = (str(value) for value in row.key.values())
        if row.kind != "changed":
            shown[row.kind].append(key)
            continue
        assert found.before is not None
        assert row.before is not None
        assert row.after is not None
        pairs = zip(row.before.items(), row.after.items(), strict=True)
        changed = {
            name: (text(found.before.definition, was, value), text(found.after.definition, name, other))
            for (was, value), (name, other) in pairs
        }
        shown["changed"].append((key, changed))
    if then is before or before.table is None:
        assert {kind: sorted(some, key=str) for kind, some in shown.items()} == {
            kind: sorted(some, key=str) for kind, some in wanted.items()
        }


def differs(one: str | None, other: str | None) -> bool:
    """Whether two values differ, whatever digits their types have."""
    if one is not None and other is not None and "." in one and "." in other and ":" not in one:
        return Decimal(one) != Decimal(other)
    return one != other
