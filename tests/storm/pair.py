"""Two MariaDB servers, of which one is the primary: sessions in several domains, failovers and crashes.
Not here: the statements (`mariadb_life.py`), the product's steps (`source.py`)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pymysql

from tests.landing.landing import executed
from tests.mariadb_server import start_mariadb
from tests.storm.mariadb_life import MariadbLife
from tests.storm.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.mariadb_server import MariadbServer
    from tests.mysql_server import MysqlServer

SECONDS = 60
NO_WAITING = "SET innodb_lock_wait_timeout = 0, lock_wait_timeout = 0"
OPTIONS = (
    "--log-slave-updates",
    # A server that is killed has all of its binlog in its tables.
    "--innodb-flush-log-at-trx-commit=2",
)


@contextmanager
def start_pair(folder: Path, version: str, random: Random) -> Iterator[Pair]:
    """A primary and its replica, which applies domains at once or one transaction after the other."""
    has_domains_by_table = random.random() < 0.5
    workers = 4 if has_domains_by_table else 0
    options = (
        *OPTIONS,
        f"--slave-parallel-threads={workers}",
        "--slave-parallel-mode=conservative",
        f"--gtid-strict-mode={random.choice(['ON', 'OFF'])}",
    )
    with (
        start_mariadb(folder / "a", version, *options) as primary,
        start_mariadb(folder / "b", version, *options, "--server-id=2") as replica,
    ):
        pair = Pair(primary, replica, has_domains_by_table=has_domains_by_table)
        pair.replicate()
        yield pair


class Pair:
    """A primary and its replica, which takes over."""

    def __init__(self, primary: MariadbServer, replica: MariadbServer, *, has_domains_by_table: bool) -> None:
        self.primary, self.replica = primary, replica
        self._has_domains_by_table = has_domains_by_table
        self.counts = {"failovers": 0, "crashes": 0}

    def workload(self, random: Random) -> Workload:
        """Sessions in several domains, on whichever server is the primary."""
        return PairWorkload(self.primary, random, MariadbLife(random, has_domains_by_table=self._has_domains_by_table))

    def happen(self, random: Random, workload: Workload) -> None:
        """The replica takes over, the primary is killed, both, or neither; sessions connect again."""
        event = random.choices(["failover", "crash", "crash and failover", "nothing"], [3, 1, 1, 3])[0]
        if event == "nothing":
            return
        if event == "crash":
            self.crash()
        else:
            self.fail_over(crash=event == "crash and failover")
        workload.connect(self.primary)
        if event != "failover":
            # A server that was killed has no metadata locks of what is prepared: DDL would wait on the other one only.
            workload.settle()

    def replicate(self) -> None:
        """The replica follows the primary from what its own binlog has."""
        self.replica.run_sql(
            f"SET GLOBAL gtid_slave_pos = '{executed(self.replica)}';"
            f" CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='root',"
            " MASTER_USE_GTID=slave_pos, MASTER_SSL=0, MASTER_CONNECT_RETRY=1; START SLAVE"
        )

    def catch_up(self) -> None:
        """Waits until the replica has all of the primary.

        Raises:
            AssertionError: It stopped, with its error.
        """
        done = self.replica.run_sql(f"SELECT MASTER_GTID_WAIT('{executed(self.primary)}', {SECONDS})")
        assert done.split()[-1] == "0", self.replica.run_sql("SHOW SLAVE STATUS\\G SHOW FULL PROCESSLIST; XA RECOVER")

    def fail_over(self, *, crash: bool) -> None:
        """The replica becomes the primary; the old primary, shut for writes or killed, follows it."""
        old, new = self.primary, self.replica
        self.catch_up()
        lacked = executed(old) - executed(new)
        if crash:
            _kill(old)
        new.run_sql("STOP SLAVE; RESET SLAVE ALL")
        # Of what changes nothing on a replica, its own binlog has nothing: what comes next in the domain covers it.
        for domain in [part.split("-")[0] for part in str(lacked).split(",") if part]:
            new.run_sql(
                f"SET gtid_domain_id = {domain}; REPLACE INTO other.t VALUES (0, 0), (0, {self.counts['failovers']})"
            )
        if crash:
            old.start_again()
        self.primary, self.replica = new, old
        self.replicate()
        self.counts["failovers"] += 1

    def crash(self) -> None:
        """The primary is killed, and starts again."""
        _kill(self.primary)
        self.primary.start_again()
        self.counts["crashes"] += 1


def _kill(server: MariadbServer) -> None:
    """Without the flush, an XA COMMIT may be in its binlog alone, and the server has it prepared for ever; so may the
    row of a sequence."""
    server.run_sql("FLUSH LOCAL ENGINE LOGS")
    server.kill()


class PairWorkload(Workload):
    """Sessions in several domains, of which some end with a prepared transaction."""

    life: MariadbLife
    _holds = True

    def steps(self, count: int) -> None:
        """So many steps of sessions; now and then a session ends with its transaction prepared."""
        for _ in range(count):
            super().steps(1)
            if self._holds and self._random.random() < 0.03:
                self._hold()
            elif self._random.random() < 0.1:
                self.settle()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """What reads rows at a position refuses to while a transaction is prepared."""
        self.settle()
        self._holds = False
        try:
            yield
        finally:
            self._holds = True

    def connect(self, server: MysqlServer) -> None:
        """Sessions that never wait for a prepared transaction."""
        super().connect(server)
        self._do([NO_WAITING])

    def _hold(self) -> None:
        with self._server.connect("shop") as connection, connection.cursor() as cursor:
            try:
                *begin, rows, end, prepare = self.life.held()
                for statement in [NO_WAITING, *begin]:
                    cursor.execute(statement)
                # What is prepared without rows is logged, and lost in a crash: a replica does not know its XA COMMIT.
                if cursor.execute(rows):
                    cursor.execute(end)
                    cursor.execute(prepare)
            except pymysql.err.MySQLError:
                self.refused += 1
        # Until its session has ended, no other session can end what is prepared.
        while self.select(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {connection.thread_id()}"):
            time.sleep(0.01)

    def settle(self) -> None:
        """Ends what is prepared."""
        with self._server.connect("shop") as connection, connection.cursor() as cursor:
            cursor.execute("XA RECOVER")
            for *_, data in cursor.fetchall():
                name = data.decode()
                cursor.execute(self.life.domain_of("ints"))
                cursor.execute(f"XA {name.split()[0]} '{name}'")

    def _foreign(self) -> list[str]:
        return [self.life.domain_of("ints"), *super()._foreign()]
