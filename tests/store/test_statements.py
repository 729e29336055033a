"""Statements are compiled once for all stores of a process whose dialects know the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from strata_cdc.store.database import open_store, reading
from strata_cdc.store.statements import COMPILED, CompiledStatements

if TYPE_CHECKING:
    from pathlib import Path

QUERY = sa.select(sa.literal_column("17").label("seventeen"), sa.bindparam("given", 4))


def test_a_second_store_compiles_nothing_anew(tmp_path: Path):
    found = []
    for name in ("one", "two"):
        engine = open_store(f"sqlite:///{tmp_path}/{name}.db")
        before = len(COMPILED)
        with reading(engine) as connection:
            assert connection.execute(QUERY, {"given": len(found)}).one() == (17, len(found))
        found.append(len(COMPILED) - before)
        engine.dispose()
    assert found == [1, 0]


def test_what_a_dialect_notes_when_it_compiles_makes_it_no_other_one():
    compiled, (lite, plain) = CompiledStatements(), (sa.create_engine("sqlite://") for _ in range(2))
    QUERY.compile(lite)
    compiled[lite.dialect, "statement"] = 17
    assert compiled.get((plain.dialect, "statement")) == 17


def test_dialects_that_know_other_things_share_nothing():
    compiled, (lite, plain, ansi) = CompiledStatements(), (sa.create_engine(url) for url in ("sqlite://",) * 3)
    ansi.dialect.paramstyle = "named"
    for at, engine in enumerate((lite, ansi)):
        compiled[engine.dialect, "statement"] = at
    assert [compiled.get((one.dialect, "statement")) for one in (lite, plain, ansi)] == [0, 0, 1]
