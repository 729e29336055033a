"""A value in the landed log that contradicts its column's type: everything in front of its row has been given, and
nothing behind it is said to be over. The error has the token behind the row, from which all others are given."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strata.errors import UnreadableValueError
from tests.rows.fuzz import mend_checksums
from tests.streams.world import World, lines_of

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

AMOUNT = bytes.fromhex("8012d68759")
"""1234567.89 as DECIMAL(9,2): digits in groups of nine (`strings/decimal.cc`)."""
OTHER_AMOUNT = AMOUNT[:-1] + b"\xff"
"""255 hundredths."""


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_value_that_is_none_ends_the_stream_in_front_of_it(
    mysql_server: MysqlServer, tmp_path: Path, order: tuple[str, str]
) -> None:
    mysql_server.run_sql("DROP DATABASE IF EXISTS damaged; CREATE DATABASE damaged")
    for name in "ab":
        mysql_server.run_sql(f"CREATE TABLE damaged.{name} (id INT PRIMARY KEY, amount DECIMAL(9,2))")
    begin = mysql_server.run_sql("SELECT @@GLOBAL.gtid_executed").splitlines()[-1]
    for number in range(1, 7):
        inserts = [f"INSERT INTO damaged.{name} VALUES ({number}, {number})" for name in order]
        if number == 3:
            inserts.insert(1, "INSERT INTO damaged.a VALUES (100, 1234567.89)")
        mysql_server.run_sql(f"BEGIN; {'; '.join(inserts)}; COMMIT")
    world = World(mysql_server, tmp_path)
    world.land()
    world.track()
    _damage(Path(world.lake))
    given: list[dict[str, Any]] = []
    with pytest.raises(UnreadableValueError, match="amount") as caught:
        given += lines_of(world.stream(begin, until="landed"))
    assert (caught.value.table, caught.value.gtid is None, caught.value.offset is None) == ("damaged.a", False, False)
    rows = [(line["table"], line["after"]["id"]) for line in given if "op" in line]
    assert rows == [(name, number) for number in (1, 2) for name in order] + [(order[0], 3)]
    # Who goes on from the last token meets the fault again.
    assert sum("commit" in line for line in given) == 2
    with pytest.raises(UnreadableValueError, match="amount"):
        world.lines(given[-1]["token"], until="landed")
    [behind] = re.findall(r"--from (\S+?)`", caught.value.remedy or "")
    given += world.lines(behind, until="landed")
    rows = [(line["table"], line["after"]["id"]) for line in given if "op" in line]
    assert rows == [(name, number) for number in range(1, 7) for name in order]
    assert sum("commit" in line for line in given) == 6


def _damage(lake: Path) -> None:
    # Of the bytes that the index has seen.
    [path] = [one for one in lake.rglob("*") if one.is_file() and AMOUNT in one.read_bytes()]
    data = bytearray(path.read_bytes())
    at = data.rindex(AMOUNT)
    data[at : at + len(AMOUNT)] = OTHER_AMOUNT
    mend_checksums(data, at)
    path.write_bytes(data)
