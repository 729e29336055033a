"""Opening stores: what is made, what is refused, and that no password is ever said."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from strata_cdc.errors import AccessDeniedError, SettingsError, StoreFormatError, StoreUnavailableError
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import TemporarySessions
from strata_cdc.store.database import OnMissing, describe, open_store, reading, writing
from strata_cdc.store.migrations import FORMAT
from strata_cdc.store.notified import NotifiedLedger
from strata_cdc.store.tables import METADATA, notified_position, row_removal, store_format, temporary_tables


def test_opening_makes_the_tables_once(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    for _ in range(2):
        engine = open_store(url)
        assert set(METADATA.tables) <= set(sa.inspect(engine).get_table_names())
        with reading(engine) as connection:
            assert connection.execute(sa.select(store_format.c.format)).scalars().all() == [FORMAT]


def test_a_reader_makes_nothing(tmp_path):
    path = tmp_path / "store.db"
    with pytest.raises(StoreFormatError, match="no store"):
        open_store(f"sqlite:///{path}", OnMissing.REFUSE)
    assert not path.exists()
    open_store(f"sqlite:///{path}")
    open_store(f"sqlite:///{path}", OnMissing.REFUSE)


def test_an_empty_store_stays_one(tmp_path):
    """A reader that has ended its connections may ask again."""
    path = tmp_path / "store.db"
    engine = open_store(f"sqlite:///{path}", OnMissing.EMPTY)
    for _ in range(2):
        assert not SchemaStore(engine).all_entries("s")
        engine.dispose()
    assert not path.exists()


def test_a_newer_store_is_refused(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    with engine.begin() as connection:
        connection.execute(store_format.update().values(format=FORMAT + 1))
    with pytest.raises(StoreFormatError, match=f"format {FORMAT + 1}"):
        open_store(f"sqlite:///{tmp_path}/store.db")


def test_a_database_of_somebody_else_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE schema_version (installed_rank INT)")
    with pytest.raises(StoreFormatError, match="not Strata's"):
        open_store(f"sqlite:///{tmp_path}/other.db")


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a database " * 100)
    with pytest.raises(StoreFormatError, match="not an SQLite database"):
        open_store(f"sqlite:///{tmp_path}/text")


def test_a_store_killed_while_it_was_made_is_completed(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    with engine.begin() as connection:
        connection.execute(store_format.delete())
        connection.exec_driver_sql("DROP TABLE drift")
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    assert "drift" in sa.inspect(engine).get_table_names()


@pytest.mark.parametrize("url", ["", "nonsense", "mysql+nodriver://x/y", "nosuch://secret@host/"])
def test_a_bad_url_is_a_mistake_in_the_settings(url):
    with pytest.raises(SettingsError) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(StoreUnavailableError) as caught:
        open_store("mysql://u:sEcReT@127.0.0.1:1/strata")
    assert "sEcReT" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreUnavailableError):
        open_store(f"sqlite:///{tmp_path}/none/store.db")


@pytest.mark.mysql
class TestMysql:
    def test_the_default_database_is_made(self, mysql_server):
        mysql_server.run_sql("DROP DATABASE IF EXISTS strata")
        engine = open_store(mysql_server.url)
        assert engine.url.database == "strata"
        assert set(METADATA.tables) <= set(sa.inspect(engine).get_table_names())
        assert open_store(f"mysql://root@127.0.0.1:{mysql_server.port}", OnMissing.REFUSE) is not None

    def test_a_reader_makes_no_database(self, mysql_server):
        with pytest.raises(StoreFormatError, match="no store"):
            open_store(f"{mysql_server.url}nothing_here", OnMissing.REFUSE)
        assert "nothing_here" not in mysql_server.run_sql("SHOW DATABASES")

    def test_a_wrong_password_is_said_without_it(self, mysql_server):
        with pytest.raises(AccessDeniedError) as caught:
            open_store(f"mysql://root:sEcReT@127.0.0.1:{mysql_server.port}/strata")
        assert "sEcReT" not in str(caught.value)
        assert "sEcReT" not in repr(caught.value.__dict__)

    def test_a_user_without_the_right_to_make_it(self, mysql_server):
        mysql_server.run_sql("CREATE USER IF NOT EXISTS poor@'%' IDENTIFIED BY 'pw'")
        with pytest.raises(AccessDeniedError):
            open_store(f"mysql://poor:pw@127.0.0.1:{mysql_server.port}/not_his")

    def test_many_open_at_once(self, mysql_server):
        mysql_server.run_sql("DROP DATABASE IF EXISTS crowd")
        url = f"{mysql_server.url}crowd"
        with ThreadPoolExecutor(8) as pool:
            engines = list(pool.map(lambda _: open_store(url), range(8)))
        with reading(engines[0]) as connection:
            assert connection.execute(sa.select(store_format.c.format)).scalars().all() == [FORMAT]
        for engine in engines:
            engine.dispose()

    def test_describing_hides_the_password(self, mysql_server):
        mysql_server.run_sql("CREATE USER IF NOT EXISTS rich@'%' IDENTIFIED BY 'sEcReT'; GRANT ALL ON *.* TO rich@'%'")
        engine = open_store(f"mysql://rich:sEcReT@127.0.0.1:{mysql_server.port}/strata")
        assert "sEcReT" not in describe(engine)
        assert "sEcReT" not in repr(engine)


def test_many_open_one_file_at_once(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with ThreadPoolExecutor(8) as pool:
        engines = list(pool.map(lambda _: open_store(url), range(8)))
    with reading(engines[0]) as connection:
        assert connection.execute(sa.select(store_format.c.format)).scalars().all() == [FORMAT]


def test_a_store_of_format_1_gets_what_it_lacks(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with writing(open_store(url)) as connection:
        notified_position.drop(connection)
        row_removal.drop(connection)
        temporary_tables.drop(connection)
        connection.execute(store_format.update().values(format=1))
    engine = open_store(url)
    NotifiedLedger(engine).put_watched("s", "")
    assert NotifiedLedger(engine).watched("s") == ""
    assert SchemaStore(engine).row_removals("s", 0, 9) == []
    assert SchemaStore(engine).temporary_tables("s") == TemporarySessions()
    with reading(engine) as connection:
        assert connection.execute(sa.select(store_format.c.format)).scalars().all() == [FORMAT]


def test_a_store_of_format_10_gets_its_index(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    with writing(open_store(url)) as connection:
        connection.exec_driver_sql("DROP INDEX published_interval_version")
        connection.execute(store_format.update().values(format=10))
    for _ in range(2):
        engine = open_store(url)
        indexes = {one["name"] for one in sa.inspect(engine).get_indexes("published_interval")}
        assert indexes == {"published_interval_table", "published_interval_version"}
        with writing(engine) as connection:
            # Killed between making it and writing the number.
            connection.execute(store_format.update().values(format=10))
