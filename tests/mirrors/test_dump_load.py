"""A dump of a table that 2,000 writes a second change, while it is altered: the mirror equals the server.

`STRATA_LOAD=50` lets it be so many times as long (`make soak`)."""

from __future__ import annotations

import os
import threading
import time

import pytest

from strata_cdc.mirrors.dump.dump_table import DumpSettings, TableDump
from strata_cdc.mirrors.dump.limits import DumpLimits
from strata_cdc.schema.model.definition import TableName
from tests.mirrors.test_dump import assert_equal, source_of
from tests.mirrors.world import MirrorWorld

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
LENGTH = int(os.environ.get("STRATA_LOAD", "1"))
ROWS = 10_000 * LENGTH
WRITES_A_SECOND = 2000
ALTERS = (
    "ALTER TABLE busy ADD COLUMN d INT DEFAULT 7, ALGORITHM=INSTANT",
    "ALTER TABLE busy ADD INDEX (a)",
    "ALTER TABLE busy MODIFY b VARCHAR(300)",
)
# A hundred row changes each; keys move, go and come again.
WRITES = (
    "UPDATE busy SET a = a + 1 WHERE id BETWEEN {0} AND {0} + 99",
    "DELETE FROM busy WHERE id BETWEEN {0} AND {0} + 49",
    "INSERT IGNORE INTO busy (id, a, b) SELECT id + 1, a, 'moved' FROM busy WHERE id BETWEEN {0} AND {0} + 99",
    "UPDATE IGNORE busy SET id = id + {1} WHERE id BETWEEN {0} AND {0} + 99",
    "REPLACE INTO busy (id, a, b) SELECT id, a + 1, REVERSE(b) FROM busy WHERE id BETWEEN {0} AND {0} + 49",
)


class Load(threading.Thread):
    """Writes at its rate, as far as the server lets it, and alters the table once in a while."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.connection, self.done, self.error = server.connect("load"), threading.Event(), None
        self.rows, self.alters, self.seconds = 0, 0, 0.0

    def run(self):
        try:
            with self.connection, self.connection.cursor() as cursor:
                self.write(cursor)
        except Exception as error:  # noqa: BLE001 - told to the test
            self.error = error

    def write(self, cursor):
        began, turn = time.monotonic(), 0
        while not self.done.is_set():
            at = (turn * 7919 * 50) % (ROWS * 2)
            self.rows += cursor.execute(WRITES[turn % len(WRITES)].format(at, ROWS))
            turn += 1
            if turn % (25 * LENGTH) == 0 and self.alters < len(ALTERS):
                cursor.execute(ALTERS[self.alters])
                self.alters += 1
            self.seconds = time.monotonic() - began
            self.done.wait(max(0.0, self.rows / WRITES_A_SECOND - self.seconds))


def test_a_dump_under_2000_writes_a_second_with_alters(server, tmp_path):
    # Less than comes: it is put aside on disk.
    limits = DumpLimits(held_bytes=100_000)
    world = MirrorWorld(server, tmp_path, database="load")
    server.run_sql(
        "CREATE DATABASE `load`; USE `load`; CREATE TABLE busy (id INT PRIMARY KEY, a INT, b VARCHAR(200));"
        "SET cte_max_recursion_depth = 100000000; INSERT INTO busy WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL "
        f"SELECT n + 1 FROM r WHERE n < {ROWS}) SELECT n * 2, n, RPAD(n, 150, 'b') FROM r"
    )
    load = Load(server)
    load.start()
    try:
        settings = DumpSettings(chunk_bytes=200_000 * LENGTH, pause_seconds=0.05)
        report = TableDump(source_of(world, limits), TableName("load", "busy"), settings).run()
    finally:
        load.done.set()
        load.join()
    assert load.error is None, load.error
    assert report.changes, report
    if LENGTH > 1:
        # How much is written meanwhile is the machine's; where others work on it, less.
        assert load.rows > 0.5 * WRITES_A_SECOND * load.seconds, (load.rows, load.seconds)
        assert report.readings > 1, (report, load.alters)
    world.publish()
    world.update()
    assert_equal(world, "busy", world.mirror("busy").to_arrow())
