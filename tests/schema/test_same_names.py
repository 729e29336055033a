"""Several tables of one name, one after the other and beside each other under their former names: the entries and the
columns of one are not those of another. The witness follows the statements by itself."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.answers.differences import differences
from strata_cdc.schema.history.column_lifetimes import find_column_lifetimes
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from tests.schema.streams import Stream, track

if TYPE_CHECKING:
    from strata_cdc.schema.history.sql_store import SchemaStore

LIVES = int(os.environ.get("STRATA_SCHEMA_LIVES", "20"))
NAMES = "abc"


def name(table: str) -> TableName:
    return TableName("d", table)


class _Witness:
    """Which table had which name behind each transaction."""

    def __init__(self, random: Random) -> None:
        self.random, self.tables = random, 0
        self.now: dict[str, int] = {}
        self.changed: list[dict[str, int]] = [{}]
        """By transaction, the tables that it made or changed, by name."""
        self.statements = ["CREATE DATABASE d"]

    def step(self) -> None:
        random, there = self.random, sorted(self.now)
        table, other = random.choice(NAMES), random.choice(NAMES)
        if table not in self.now:
            self.tables += 1
            self.now[table] = self.tables
            self._note(f"CREATE TABLE {table} (c{self.tables} INT)", table)
        elif random.random() < 0.2:
            del self.now[table]
            self._note(f"DROP TABLE {table}")
        elif random.random() < 0.5 and other not in self.now:
            self.now[other] = self.now.pop(table)
            self._note(f"RENAME TABLE {table} TO {other}", other)
        elif there:
            self._note(f"ALTER TABLE {table} ADD c{len(self.changed)}_{self.now[table]} INT", table)

    def _note(self, statement: str, *tables: str) -> None:
        self.statements.append(statement)
        self.changed.append({table: self.now[table] for table in tables})


@pytest.mark.parametrize("seed", range(LIVES))
def test_each_life_is_one_table(store: SchemaStore, seed: int) -> None:
    witness = _Witness(Random(seed))
    for _ in range(40):
        witness.step()
    track(store, Stream(), *witness.statements)
    for table in NAMES:
        entries = [one for one in lineage(store, "s", name(table)) if one.name.table]
        assert len({(one.version_id, one.name) for one in entries}) == len(entries)
        # Transaction and table, of versions of which there is a definition.
        tables = {one.version_id: witness.changed[one.seq - 1][one.name.table] for one in entries if one.fingerprint}
        had = {at[table] for at in witness.changed if table in at}
        assert set(tables.values()) == had, "no other table is a part of it"
        lifetimes = find_column_lifetimes(store, lineage(store, "s", name(table)))
        found = [{tables[version] for version in lifetime.versions} for lifetime in lifetimes]
        assert all(len(one) == 1 for one in found), found
        assert len(found) == len(had)
        for lifetime in lifetimes:
            # From its beginning to where it last had the name.
            [one] = {tables[version] for version in lifetime.versions}
            whole = [(seq, at) for seq, at in enumerate(witness.changed) if one in at.values()]
            last = max(seq for seq, at in whole if at.get(table) == one)
            assert len(lifetime.versions) == len([seq for seq, _ in whole if seq <= last])
        if table in witness.now:
            assert found[-1] == {witness.now[table]}
            columns = {column.steps[0].name for column in lifetimes[-1].columns if column.ended is None}
            assert columns == set(_columns(witness, witness.now[table]))


def _columns(witness: _Witness, table: int) -> list[str]:
    texts = [text.partition(" (c")[2] or text.partition(" ADD c")[2] for text in witness.statements]
    found = ["c" + text.partition(" ")[0] for text in texts if text]
    return [one for one in found if one.partition("_")[2] == str(table) or one == f"c{table}"]


BESIDE = (
    "CREATE DATABASE d",
    "CREATE TABLE t (x INT)",
    "CREATE TABLE a (p INT)",
    "ALTER TABLE t ADD y INT",
    "ALTER TABLE a ADD q INT NOT NULL DEFAULT 7",
    "RENAME TABLE t TO old",
    "RENAME TABLE a TO t",
)


def test_a_table_that_was_dropped_is_not_the_past_of_another(store: SchemaStore) -> None:
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE a (gone INT)", "DROP TABLE a", "CREATE TABLE a (x INT)",
          "RENAME TABLE a TO b")  # fmt: skip
    assert [one.ddl for one in changes(store, "s", name("b"))] == ["CREATE TABLE a (x INT)", "RENAME TABLE a TO b"]


def test_what_was_done_to_another_table_is_no_difference(store: SchemaStore) -> None:
    """Between these points the name goes from one table to another: what was done to that before tells nothing."""
    track(store, Stream(), *BESIDE)
    [found] = differences(store, "s", AtSeq(4), AtSeq(7), name("t"))
    assert found.effect is not None
    assert found.effect.filled == ()
