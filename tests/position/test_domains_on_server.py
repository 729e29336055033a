"""MariaDB's own word on its positions: what it has in its binlog, and which position contains which."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import ExecutedBuilder, parse_executed
from strata_cdc.position.sets import Gtid
from tests.mariadb_server import PREFIXES, start_mariadb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=PREFIXES)
def mariadb(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param) as server:
        yield server


def test_the_binlog_has_the_position_that_its_transactions_make(mariadb: MariadbServer) -> None:
    """Domains, servers and jumps of the sequence, and one more file, whose list begins with all of it."""
    chance = random.Random(1)
    mariadb.run_sql("CREATE OR REPLACE DATABASE shop; CREATE TABLE shop.t (n INT);")
    with mariadb.connect("shop") as connection, connection.cursor() as cursor:
        for number in range(60):
            cursor.execute(f"SET gtid_domain_id = {chance.choice([0, 1, 4294967295])}")
            cursor.execute(f"SET server_id = {chance.choice([1, 7])}")
            if chance.random() < 0.2:
                cursor.execute("SELECT @@gtid_binlog_pos")
                newest = DomainSet.parse(cursor.fetchone()[0])
                cursor.execute("SELECT @@gtid_domain_id")
                known = newest.range_of(cursor.fetchone()[0])
                cursor.execute(f"SET gtid_seq_no = {(known.last if known else 0) + chance.randint(1, 1000)}")
            cursor.execute(f"INSERT INTO t VALUES ({number})")
            if number == 30:
                cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SELECT @@gtid_binlog_pos")
        said = cursor.fetchone()[0]
        builder = ExecutedBuilder()
        cursor.execute("SHOW BINARY LOGS")
        for file, *_ in cursor.fetchall():
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
            for row in cursor.fetchall():
                if row[2] == "Gtid_list":
                    assert parse_executed(row[5].strip("[]")) == builder.build()
                if row[2] == "Gtid":
                    builder.add(Gtid.parse(re.search(r"GTID (\S+)", row[5])[1]))
    assert builder.build() == parse_executed(said)
    assert sorted(str(builder.build()).split(",")) == sorted(said.split(","))


def test_a_position_contains_what_the_server_does_not_wait_for(mariadb: MariadbServer) -> None:
    chance = random.Random(2)
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL gtid_strict_mode = OFF")
        for _ in range(60):
            texts = [f"{domain}-{chance.randint(1, 3)}-{chance.randint(1, 9)}" for domain in chance.sample(range(3), 2)]
            had = DomainSet.parse(",".join(texts))
            wanted = Gtid.parse(f"{chance.randint(0, 2)}-{chance.randint(1, 3)}-{chance.randint(1, 9)}")
            cursor.execute("SET GLOBAL gtid_slave_pos = %s", (str(had),))
            cursor.execute("SELECT MASTER_GTID_WAIT(%s, 0)", (str(wanted),))
            assert had.contains(wanted) == (cursor.fetchone()[0] == 0), (str(had), str(wanted))
