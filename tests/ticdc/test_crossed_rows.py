"""The rule that new data are committed after their schema: whatever breaks it is shown with both positions, wherever
such rows are counted. A row with exactly the timestamp of a schema belongs to the schema before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import Location
from strata_cdc.schema.model.quadrants import DdlKind, Quadrant
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.verdicts import VerdictLedger
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn
from tests.ticdc.reading import read
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from pathlib import Path

MORE = SinkColumn("more", default="7")
DDL = START + (10 << 18)
ADD = "ALTER TABLE t ADD COLUMN more INT DEFAULT 7"
BEFORE, AT, AFTER = DDL - 1, DDL, DDL + 1


@pytest.mark.parametrize("protocol", ["csv", "canal-json"])
@pytest.mark.parametrize(
    ("stamps", "first"), [((AT, AFTER), 1), ((BEFORE, AFTER), 1), ((AFTER, AFTER + 1), 0), ((BEFORE, AT), 2)]
)
def test_new_data_are_committed_after_their_schema(
    tmp_path: Path, protocol: str, stamps: tuple[int, ...], first: int
) -> None:
    feed = Feed(tmp_path, FeedForm(protocol=protocol))
    table = feed.table("t", (ID, NAME))
    feed.write(table, [Row(START + 1, named(1))])
    schema = feed.ddl(table, DDL, 5, ADD, (ID, NAME, MORE))
    data = feed.write(table, [Row(ts, named(at + 2, more=5)) for at, ts in enumerate(stamps)])
    feed.checkpoint(START + (99 << 18))
    got = read(tmp_path)
    counts, key = got.counts.quadrants, ("shop.t", DdlKind.ADD_COLUMN, Quadrant.NEW_OLD)
    assert counts.rows[key] == first
    assert counts.rows["shop.t", DdlKind.ADD_COLUMN, Quadrant.NEW_NEW] == 2 - first
    row = Location(commit_ts=stamps[0], file=str(data.relative_to(tmp_path)), offset=1)
    made_at = Location(commit_ts=DDL, file=str(schema.relative_to(tmp_path)))
    assert counts.first == ({key: (row, made_at)} if first else {})


def test_rows_at_the_timestamp_of_the_first_schema_are_new_data_too(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    table = feed.table("t", (ID, NAME))
    feed.write(table, [Row(START, named(1)), Row(START + 1, named(2))])
    feed.checkpoint(START + 99)
    got = read(tmp_path)
    assert [row[0] for row in got.aside] == [START]
    assert got.counts.quadrants.rows["shop.t", DdlKind.STATE, Quadrant.NEW_OLD] == 1
    assert [row.commit_ts for row, _ in got.counts.quadrants.first.values()] == [START]


class Crossed:
    """A world with rows on the wrong side of ADD COLUMN, and of TRUNCATE TABLE, which are set aside."""

    def __init__(self, folder: Path) -> None:
        self.world = SinkWorld(folder)
        self.feed = Feed(self.world.sink, OLD_VALUES)
        tables = self.feed.table("t", (ID, NAME)), self.feed.table("u", (ID, NAME), id=101)
        for table in tables:
            self.feed.write(table, [Row(START + 1, named(1))])
        self.table = tables[0]
        added = self.feed.ddl(tables[0], DDL, 5, ADD, (ID, NAME, MORE))
        emptied = self.feed.ddl(tables[1], DDL, 11, "TRUNCATE TABLE u")
        data = [self.feed.write(tables[0], [Row(AT, named(3, more=5)), Row(AFTER, named(2, more=1))])]
        data.append(self.feed.write(tables[1], [Row(BEFORE, named(2)), Row(AT, named(3)), Row(AFTER, named(4))]))
        self.feed.checkpoint(START + (30 << 18))
        paths = [str(path.relative_to(self.world.sink)) for path in (*data, added, emptied)]
        locations = [f"commit-ts {AT} ({paths[0]} @ 1)", f"commit-ts {BEFORE} ({paths[1]} @ 1)"]
        schemas = [f"commit-ts {DDL} ({path})" for path in paths[2:]]
        around = "new data, old schema, around"
        self.added = f"1 row of {around} add column: a row at {locations[0]}, the DDL at {schemas[0]}"
        self.emptied = f"2 rows of {around} truncate table: a row at {locations[1]}, the DDL at {schemas[1]}"
        self.reason = f"under the schema after truncate table at {schemas[1]}, which changes which rows there are"
        self.paths = paths

    def verdict(self) -> dict[str, list[Any]]:
        engine, found = open_store(self.world.source.store_url), dict[str, list[Any]]()
        starts = [interval.start for interval in IntervalLedger(engine).all("s")]
        for verdict in VerdictLedger(engine).select("s", starts):
            for rule in verdict.details.failures:
                found.setdefault(rule.check, []).append(rule)
        return found


def test_both_positions_are_wherever_such_rows_are_counted(tmp_path: Path) -> None:
    crossed = Crossed(tmp_path)
    world = crossed.world
    decoded = world.strata("decode", str(world.sink), "--time-zone", "UTC", "--out", str(tmp_path / "rows.jsonl"))
    assert f"shop.t: {crossed.added}\n" in decoded.stderr
    # Of rows that are set aside, too.
    assert f"shop.u: {crossed.emptied}\n" in decoded.stderr
    assert crossed.reason in decoded.stderr
    with pytest.raises(Exception, match="not published"):
        world.run()
    rules = crossed.verdict()
    assert sorted(rule.message for rule in rules["rows_have_the_valid_schema"]) == [crossed.added, crossed.emptied]
    (aside,) = rules["rows_can_be_decoded"]
    error = json.loads(aside.examples[0])
    made_at = {"commit_ts": DDL, "file": crossed.paths[3]}
    assert error["crossing"] == {"ddl": "truncate table", "quadrant": "new data, old schema", "made_at": made_at}
    assert (error["commit_ts"], error["file"], error["offset"]) == (BEFORE, crossed.paths[1], 1)
    assert crossed.reason in error["message"]
    # Since the first landing: the newest row.
    newest = crossed.emptied.replace(f"{BEFORE} ({crossed.paths[1]} @ 1)", f"{AT} ({crossed.paths[1]} @ 2)")
    status = world.strata("status").stdout
    assert {f"shop.t: {crossed.added}", f"shop.u: {newest}"} <= set(status.splitlines())
    numbers = json.loads(world.strata("status", "--json").stdout)
    assert numbers["crossed_rows"] == 3
    assert [(one["rows"], one["row"]["commit_ts"]) for one in numbers["sink"]["crossed"]] == [(1, AT), (2, AT)]
    shown = " ".join(world.strata("quarantine", "show").stdout.split())
    assert "under the schema after truncate table" in shown


def test_the_status_has_the_newest_of_all_landings(tmp_path: Path) -> None:
    crossed = Crossed(tmp_path)
    with pytest.raises(Exception, match="not published"):
        crossed.world.run()
    late = crossed.feed.write(crossed.table, [Row(DDL + (40 << 18), named(9))], version=START)
    crossed.feed.checkpoint(START + (60 << 18))
    crossed.world.strata("land")
    [status] = map(json.loads, crossed.world.strata("status", "--json").stdout.splitlines())
    newest = {(one["table"], one["quadrant"]): (one["rows"], one["row"]) for one in status["sink"]["crossed"]}
    location = {"commit_ts": DDL + (40 << 18), "file": str(late.relative_to(crossed.world.sink)), "offset": 1}
    assert newest["shop.t", "old data, new schema"] == (1, location)
    assert newest["shop.t", "new data, old schema"][1]["commit_ts"] == AT
