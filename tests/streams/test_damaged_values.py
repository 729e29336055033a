"""Values in the landed log that contradict their column's type, by lot: each costs its row, which has a line of its own
kind in its place with all that could be read of it and the bytes that could not. All other rows are what SELECT has,
and a reader goes on behind any line."""

from __future__ import annotations

import random
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cache.reading import CacheStream
from strata_cdc.cache.serving import Serving
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.schema.model.definition import TableName
from strata_cdc.streams.events import Commit, RowChange, UnreadableChange
from strata_cdc.streams.stream import ChangeStream
from tests.changes import damage
from tests.changes.fuzz import mend_checksums
from tests.changes.live import Live
from tests.seeds import seeds
from tests.streams.world import World

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

ROWS, EACH = 48, 6
Hit = dict[damage.Value, bytes]


@pytest.fixture(scope="module", params=seeds())
def drawn(
    request: pytest.FixtureRequest, mysql_server: MysqlServer, tmp_path_factory: pytest.TempPathFactory
) -> tuple[World, str, list[dict[str, Any]], Hit, random.Random]:
    """A source, where it begins, the changes that the server says it has made, and what is damaged of them."""
    dice = random.Random(request.param)
    live, world = Live(mysql_server), World(mysql_server, tmp_path_factory.mktemp("damaged"))
    live.run(f"CREATE TABLE v ({damage.TABLE}, mark BINARY(4))")
    live.run("CREATE TABLE other (id INT PRIMARY KEY)")
    [(begin,)] = live.run("SELECT @@GLOBAL.gtid_executed")
    for first in range(1, ROWS, EACH):
        live.run("BEGIN")
        live.run(f"INSERT INTO other VALUES ({first})")
        live.run(f"INSERT INTO v VALUES {', '.join(f'({damage.row(n)}, 1)' for n in range(first, first + EACH))}")
        live.run(f"INSERT INTO other VALUES ({first + 1})")
        live.run("COMMIT")
    definition = live.definition("v")
    inserted = live.truth("v", definition)
    live.run("UPDATE v SET mark = 2 WHERE id % 2 = 0")
    updated = live.truth("v", definition)
    live.run("DELETE FROM v WHERE id % 3 = 0")
    world.land()
    world.track()
    truth = [("insert", None, row) for row in inserted]
    truth += [("update", old, new) for old, new in zip(inserted, updated, strict=True) if old != new]
    truth += [("delete", row, None) for row in updated if row["id"] % 3 == 0]
    changes = [{"op": op, "before": before and {**before}, "after": after and {**after}} for op, before, after in truth]
    return world, begin, changes, _damage(Path(world.lake), TableName(live.database, "v"), definition, dice), dice


def _damage(lake: Path, name: TableName, definition: Any, dice: random.Random) -> Hit:
    found: Hit = {}
    for path in sorted(lake.rglob("*.binlog")):
        spots = damage.spots(path, name, definition)
        if not spots:
            continue
        data = bytearray(path.read_bytes())
        # Some rows have several.
        for value in dice.sample(sorted(spots), len(spots) // 20):
            found[value] = damage.damage(data, value.column, spots[value])
        mend_checksums(data, 4)
        path.write_bytes(data)
    return found


def test_each_costs_its_row(drawn: Any) -> None:
    world, begin, changes, hit, _ = drawn
    lines = world.lines(begin, until="landed")
    mine = [line for line in lines if line.get("table") == "v"]
    assert len(mine) == len(changes)
    found: Hit = {}
    for line, change in zip(mine, changes, strict=True):
        assert ("unreadable" in line) is not ("op" in line)
        whole = line.get("unreadable", line)
        for value in whole.get("values", ()):
            place = damage.Value(int(line["gtid"].split(":")[1]), line["row"], value["image"], value["column"])
            found[place] = b64decode(value["bytes"])
            assert value["error"] == "UnreadableValueError"
            assert change[value["image"]].pop(value["column"]) is not None
        assert {name: whole[name] for name in ("op", "before", "after")} == change
    assert found == hit
    assert len([line for line in lines if line.get("table") == "other"]) == ROWS // EACH * 2
    assert sum("commit" in line for line in lines) == ROWS // EACH + 2


def test_a_reader_goes_on_behind_any_line(drawn: Any) -> None:
    world, begin, _, _, dice = drawn
    lines = world.lines(begin, until="landed")
    unreadable = [at for at, line in enumerate(lines) if "unreadable" in line]
    for at in {*dice.sample(range(len(lines)), 6), *dice.sample(unreadable, 4), unreadable[-1]}:
        assert world.lines(lines[at]["token"], until="landed") == lines[at + 1 :]


def test_columns_that_can_be_read_make_a_row(drawn: Any) -> None:
    world, begin, _, hit, dice = drawn
    some = dice.sample(sorted(damage.COLUMNS), 3)
    lines = world.lines(begin, until="landed", columns=["id", *some])
    positions = {(value.gno, value.row) for value in hit if value.column in some}
    found = {(int(line["gtid"].split(":")[1]), line["row"]) for line in lines if "unreadable" in line}
    assert found == positions
    assert any("op" in line for line in lines)


def test_events_say_the_same(drawn: Any) -> None:
    world, begin, _, _, _ = drawn
    lines = world.lines(begin, until="landed")
    stream = ChangeStream(world, begin, until="landed")
    kinds = {UnreadableChange: "unreadable", RowChange: "op", Commit: "commit"}
    for event, line in zip(stream, lines, strict=True):
        assert kinds[type(event)] in line
        assert event.token == line["token"]
        if isinstance(event, UnreadableChange):
            assert [value.shown() for value in event.found.values] == line["unreadable"]["values"]
    assert stream.unreadable_rows == sum("unreadable" in line for line in lines)


def test_a_cache_lets_go_of_all_that_a_row_may_touch(drawn: Any) -> None:
    world, begin, _, hit, _ = drawn
    [database] = {line["database"] for line in world.lines(begin, until="landed") if line.get("table") == "v"}
    shapes = Shapes.of("s", [Shape("day", {f"{database}.v": ("a",)})])
    stream = world.stream(begin, until="landed", tables=shapes.patterns, columns=shapes.columns)
    reading, whole, known = CacheStream(shapes, Serving(world, shapes), stream), set(), set()
    for event in stream:
        touched = reading.consume(event)
        if isinstance(event, Commit) and touched is not None:
            gno = int(str(event.gtid).split(":")[1])
            (whole if touched.whole == {"day"} else known).add(gno)
            assert touched.whole or touched.keys["day"]
    assert whole == {value.gno for value in hit if value.column == "a"}
    assert known
