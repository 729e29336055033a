"""The schema engine on a real server: the same form as the replay, and honest about what it cannot see."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from strata_cdc.binlog.protocol.connection import ServerAddress, connect
from strata_cdc.errors import SourceSettingsError
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.live.grants import Grants
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_files
from tests.mysql_server import start_server

TABLES = """
CREATE TABLE everything (
  id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, a tinyint(1), b int ZEROFILL, c decimal(10,2) DEFAULT 1.5,
  d float unsigned, e double, f bit(3) DEFAULT b'101', g char(3) DEFAULT 'x', h varchar(200) CHARACTER SET utf8mb4,
  i text, j blob, k enum('a','it''s') DEFAULT 'a', l set('x','y'), m date,
  n datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), o timestamp(6) NULL, p time(2), q year,
  r json, s geometry NOT NULL SRID 4326, t vector(3), u int GENERATED ALWAYS AS (a + 1) VIRTUAL,
  v int GENERATED ALWAYS AS (a + 2) STORED INVISIBLE, w varbinary(10) DEFAULT 'ab', x binary(2),
  y int DEFAULT (1 + 2) COMMENT 'it''s', z point,
  UNIQUE KEY uk (h(10), g DESC), KEY fk ((a + 1)), FULLTEXT KEY ft (i), SPATIAL KEY sp (s), KEY hidden (d) INVISIBLE
) CHARACTER SET latin1 COMMENT 'hello';
CREATE TABLE nokey (x int) ROW_FORMAT = COMPACT PARTITION BY HASH (x) PARTITIONS 3;
SET sql_generate_invisible_primary_key = 1;
CREATE TABLE invisible_key (x int);
CREATE VIEW seen AS SELECT 1 AS one;
"""


def address(server, user="root", password=""):
    return ServerAddress("127.0.0.1", server.port, user, password)


def as_replayed(definition):
    """Without what the server prints in a form of its own: expressions; and what it fills in: engine, options."""
    columns = tuple(
        replace(
            column,
            generation_expression=None,
            default=None if column.default_is_expression and column.on_update is None else column.default,
        )
        for column in definition.columns
    )
    keys = tuple(
        replace(key, generated=False, parts=tuple(replace(part, expression=None) for part in key.parts))
        for key in definition.keys
    )
    return replace(definition, columns=columns, keys=keys, engine=None, options="")


@pytest.mark.mysql
def test_a_reading_has_the_form_of_the_replay(mysql_server):
    mysql_server.run_sql("DROP DATABASE IF EXISTS live; FLUSH BINARY LOGS; CREATE DATABASE live CHARACTER SET latin1")
    mysql_server.run_sql(TABLES, "live")
    engine = open_store("sqlite://")
    report = track_files([str(mysql_server.binlogs()[-1])], engine, "s")
    history = History(SchemaStore(engine), "s")
    with connect(address(mysql_server)) as connection:
        live = LiveSchema(connection)
        found = {name: definition for name, definition in live.tables() if name.database == "live"}
        assert TableName("live", "seen") in live.views()
        [database] = [entry for entry in live.databases() if entry.name == "live"]
        assert (database.character_set, database.collation) == ("latin1", "latin1_swedish_ci")
        assert GtidSet.parse(live.end()) >= GtidSet.parse(report.gtid_executed)
    assert {name.table for name in found} == {"everything", "nokey", "invisible_key"}
    for name, definition in found.items():
        assert as_replayed(definition) == as_replayed(history.at(name, AtSeq(report.seq)).definition)


@pytest.mark.mysql
def test_a_reading_is_of_one_moment_whatever_goes_on(mysql_server):
    mysql_server.run_sql("DROP DATABASE IF EXISTS moving; CREATE DATABASE moving; CREATE TABLE moving.t (a INT)")
    with connect(address(mysql_server)) as connection:
        live = LiveSchema(connection)
        mysql_server.run_sql("ALTER TABLE moving.t ADD b INT; CREATE TABLE moving.u (a INT)")
        found = {name: d for name, d in live.tables() if name.database == "moving"}
        assert [column.name for column in found[TableName("moving", "t")].columns] == ["a"]
        assert TableName("moving", "u") not in found
        # Root may lock out DDL for the moment of the beginning, so both sets are the same; but where tables of other
        # tests had to be asked for their labels.
        end = live.end()
        assert live._texts.has_queried or end == live.gtid_before


@pytest.mark.mysql
class TestGrants:
    @pytest.fixture(autouse=True)
    def databases(self, mysql_server):
        mysql_server.run_sql(
            "DROP DATABASE IF EXISTS seen_db; DROP DATABASE IF EXISTS hidden_db; DROP USER IF EXISTS reader@'%';"
            "CREATE DATABASE seen_db; CREATE DATABASE hidden_db; CREATE USER reader@'%' IDENTIFIED BY 'pw';"
            "CREATE TABLE seen_db.t (a INT, b INT); CREATE TABLE hidden_db.t (a INT, b INT);"
            "CREATE TABLE hidden_db.u (a INT, b INT)"
        )

    def read(self, server):
        with connect(address(server, "reader", "pw")) as connection:
            live = LiveSchema(connection)
            return live, {str(name) for name, _ in live.tables()}

    def test_select_alone_is_enough(self, mysql_server):
        mysql_server.run_sql("GRANT SELECT ON *.* TO reader@'%'")
        live, tables = self.read(mysql_server)
        assert tables >= {"seen_db.t", "hidden_db.t", "hidden_db.u"}
        assert live.sight.everything
        assert live.sight.hidden() == []

    def test_what_a_missing_grant_hides_is_said(self, mysql_server):
        mysql_server.run_sql("GRANT SELECT ON `seen\\_db`.* TO reader@'%'; GRANT SELECT ON hidden_db.u TO reader@'%'")
        live, tables = self.read(mysql_server)
        assert tables == {"seen_db.t", "hidden_db.u"}
        assert not live.sight.everything
        assert live.sight.sees_all_of("seen_db")
        assert not live.sight.sees_all_of("seenxdb")
        [hidden] = live.sight.hidden()
        assert "hidden_db.u" in hidden

    @pytest.mark.parametrize(("named", "is_seen"), [("seen_db", True), ("seen__b", False), ("seen\\_db", False)])
    def test_with_partial_revokes_no_name_is_a_pattern(self, mysql_server, named, is_seen):
        """What such a server hides was taken for what is not there."""
        mysql_server.run_sql(f"GRANT SELECT ON `{named}`.* TO reader@'%'; SET GLOBAL partial_revokes = ON")
        try:
            live, tables = self.read(mysql_server)
        finally:
            mysql_server.run_sql("SET GLOBAL partial_revokes = OFF")
        assert (tables == {"seen_db.t"}) is live.sight.sees_all_of("seen_db") is is_seen

    def test_a_grant_on_columns_hides_the_others(self, mysql_server):
        """information_schema shows a table with one column then; that is no definition."""
        mysql_server.run_sql("GRANT SELECT (a) ON hidden_db.t TO reader@'%'; GRANT SELECT ON seen_db.* TO reader@'%'")
        _, tables = self.read(mysql_server)
        assert tables == {"seen_db.t"}

    def test_the_report_says_it_and_the_tracker_keeps_the_rest_unknown(self, mysql_server):
        mysql_server.run_sql("GRANT SELECT ON seen_db.* TO reader@'%'; FLUSH BINARY LOGS")
        engine = open_store("sqlite://")
        report = snapshot_schemas(address(mysql_server, "reader", "pw"), engine, "s")
        assert report.tables == 1
        assert report.hidden
        mysql_server.run_sql("CREATE TABLE seen_db.later (a INT)")
        track_files([str(mysql_server.binlogs()[-1])], engine, "s")
        listed = dict(History(SchemaStore(engine), "s").tables(AtSeq(0)))
        assert TableName("seen_db", "t") in listed
        assert TableName("hidden_db", "t") not in listed
        assert "EVERY" not in listed
        assert any(not name.table for name in listed)


@pytest.mark.mysql
def test_without_gtids_a_reading_is_of_a_place_in_the_binlog(tmp_path):
    with start_server(tmp_path / "server", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as server:
        server.run_sql("CREATE DATABASE moving; CREATE TABLE moving.t (a INT)")
        end = server.binlogs()[-1].stat().st_size
        with connect(address(server)) as connection:
            live = LiveSchema(connection)
            server.run_sql("ALTER TABLE moving.t ADD b INT")
            found = {name: d for name, d in live.tables() if name.database == "moving"}
            assert [column.name for column in found[TableName("moving", "t")].columns] == ["a"]
            assert (str(live.position), live.end()) == (f"{server.binlogs()[-1].name}:{end}", "")
        server.run_sql(
            "CREATE USER reader@'%' IDENTIFIED BY 'pw'; GRANT SELECT, REPLICATION CLIENT ON *.* TO reader@'%'"
        )
        with (
            connect(address(server, "reader", "pw")) as connection,
            pytest.raises(SourceSettingsError, match="DDL could not be locked out") as caught,
        ):
            LiveSchema(connection)
        assert "BACKUP_ADMIN" in str(caught.value)


@pytest.mark.parametrize(
    ("grants", "everything", "sees", "hides"),
    [
        (["GRANT SELECT ON *.* TO `u`@`%`"], True, ["any.t"], []),
        (["GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION"], True, ["any.t"], []),
        (["GRANT USAGE ON *.* TO `u`@`%`"], False, [], ["any.t"]),
        (["GRANT PROCESS, REPLICATION SLAVE ON *.* TO `u`@`%`"], False, [], ["any.t"]),
        (["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `b`.* FROM `u`@`%`"], False, ["a.t"], ["b.t"]),
        (["GRANT SELECT ON `a%`.* TO `u`@`%`"], False, ["ab.t", "a.t"], ["b.t"]),
        (["GRANT SELECT ON `a``b`.`t` TO `u`@`%`"], False, ["a`b.t"], ["a`b.u"]),
        (["GRANT SELECT (`x`), INSERT (`x`) ON `a`.`t` TO `u`@`%`"], False, [], ["a.t"]),
        (["GRANT SELECT (`x`, `y`), INSERT ON `a`.`t` TO `u`@`%`"], False, ["a.t"], []),
        (["GRANT `role`@`%` TO `u`@`%`", "GRANT PROXY ON ``@`` TO `u`@`%`"], False, [], ["a.t"]),
    ],
)
def test_sight(grants, everything, sees, hides):
    sight = Grants.parse(grants).sight()
    assert sight.everything is everything
    assert (sight.hidden() == []) is everything
    for text in sees:
        assert sight.sees_all_columns_of(TableName(*text.split(".")))
    for text in hides:
        assert not sight.sees_all_columns_of(TableName(*text.split(".")))


@pytest.mark.mysql
@pytest.mark.slow
def test_a_thousand_tables_are_read_in_seconds(tmp_path):
    columns = ", ".join(f"c{number} VARCHAR(20)" for number in range(10))
    with start_server(tmp_path / "server", "--innodb-buffer-pool-size=256M", "--skip-log-bin") as server:
        for database in range(4):
            server.run_sql(f"CREATE DATABASE d{database}")
            server.run_sql(
                "".join(f"CREATE TABLE t{n} (id INT PRIMARY KEY, {columns}, KEY k (c1));" for n in range(125)),
                f"d{database}",
            )
        report = snapshot_schemas(address(server), open_store(f"sqlite:///{tmp_path}/store.db"), "s")
    assert report.tables == 500
    assert report.seconds < 5
