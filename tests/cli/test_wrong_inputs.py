"""What a user does wrong at first: the first line says what it is, and nothing is made by asking."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress, open_connection, server_errors
from strata_cdc.cli.engine_steps import run_job
from strata_cdc.cli.main import run
from strata_cdc.errors import AccessDeniedError, Permanent
from strata_cdc.pipeline.steps import CHECK
from tests.docs.reader import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = 'lake = "lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.shop]\nconnection = "x"\n'
BINLOG = REPOSITORY / "tests/binlog/golden/mixed.binlog"
RUN = "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "strata.toml").write_text(SETTINGS.format(folder=tmp_path))
    (tmp_path / "two.toml").write_text(SETTINGS.format(folder=tmp_path) + '[sources.audit]\nconnection = "x"\n')
    (tmp_path / "nowhere.toml").write_text(SETTINGS.format(folder="/nope/dir"))
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    # Nobody listens there.
    monkeypatch.setenv("AIRFLOW_CONN_X", "mysql://u@127.0.0.1:1/")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("check wrongrun", 2, "there is no run wrongrun (source shop)"),
        (f"check {RUN}", 2, f"there is no run {RUN}"),
        ("publish wrongrun", 2, "there is no run wrongrun (source shop)"),
        ("publish ../wrongrun", 2, "there is no run ../wrongrun (source shop)"),
        ("check ..", 2, "there is no run .. (source shop)"),
        (f"decode {RUN}", 2, f"there is no run {RUN}"),
        ("decode wrongrun", 2, "'wrongrun' is neither a file nor a run"),
        ("decode file", 2, "file is a file, and nothing says where its rows go"),
        ("decode a b", 2, "neither a nor b is a file"),
        (f"decode {RUN} --format parquet", 2, "--format is for files"),
        (f"decode {RUN} --table shop.*", 2, "--table is for files"),
        ("decode nope.000001 --out -", 2, "there is no such file (nope.000001)"),
        ("publish", 2, "missing argument 'RUN'"),
        ("status --source nope", 2, "there is no source 'nope'; the settings have: shop"),
        ("run --source nope", 2, "there is no source 'nope'"),
        ("run --until never", 2, "'never' is no time"),
        ("run --from 0001-01-01T00:00:00+14:00", 2, "'0001-01-01T00:00:00+14:00' is no time"),
        ("intervals --start 9999-12-31T23:59:59-01:00", 2, "'9999-12-31T23:59:59-01:00' is no time"),
        ("stream --from 0001-01-01T00:00:00+14:00", 2, "'0001-01-01T00:00:00+14:00' is no time"),
        ("run --until 2999-01-01", 2, "--until 2999-01-01 is in the future"),
        ("run --until 2020-01-01 --gtid-set x", 2, "a run takes a GTID set or a span of time, not both"),
        ("run --from 2020-01-02 --until 2020-01-01", 2, "there is no time between --from 2020-01-02 and 2020-01-01"),
        ("run --from 2999-01-01", 2, "there is no time between --from 2999-01-01 and now"),
        ("run --gtid-set x", 2, "'x' is not the UUID of a server"),
        ("run", 3, "u@127.0.0.1:1 does not answer"),
        ("track nope.000001 --store sqlite:///n.db", 2, "there is no such file (nope.000001)"),
        ("schema show --store sqlite:///n.db", 3, "there is no store at sqlite:///n.db"),
        ("schema history --store sqlite:///n.db --source shop", 3, "there is no store at sqlite:///n.db"),
        (f"decode {BINLOG} --store sqlite:///n.db --out -", 3, "there is no store at sqlite:///n.db"),
        ("check --dry-run --table a.b", 2, "no version of a.b is known (source shop)"),
        ("track --baseline n.sql", 2, "--baseline is for binlog files, and none is given. Name them, or leave out --b"),
        ("track .", 2, "this is a folder, and files are needed (.). Name its files."),
        ("land --files nope", 2, "the folder has no binlog files, or is not there"),
        ("views --table shop.zz", 2, "nothing is published of shop.zz"),
        ("views --history --table shop.zz", 2, "there is no mirror of shop.zz"),
        ("status", 0, ""),
        ("intervals", 0, ""),
        ("retain", 0, ""),
        ("housekeep --dry-run", 0, ""),
    ],
)
def test_the_first_line_says_what_is_wrong_and_nothing_is_made(folder, capsys, words, code, said):
    before = sorted(path.name for path in folder.iterdir())
    assert run(words.split()) == code
    printed = capsys.readouterr().err
    assert printed.startswith(f"strata: {said}" if said else "")
    assert bool(printed) == bool(said)
    if words != "run":
        assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(
    ("settings", "words", "code", "said"),
    [
        ("nope.toml", "status", 2, "the settings cannot be read: No such file or directory"),
        (".", "status", 2, "the settings cannot be read: Is a directory"),
        ("two.toml", "plan", 2, "which source: the settings have audit, shop. Name one, as in --source audit."),
        ("two.toml", "schema history", 2, "which source: the settings have audit, shop"),
        (
            "nowhere.toml",
            "status",
            3,
            "the store at sqlite:////nope/dir/s.db cannot be opened: its folder does not exist",
        ),
        (None, "status", 2, "STRATA_SETTINGS is not set"),
        (None, "track", 2, "no source is named"),
    ],
)
def test_settings_that_do_not_fit(folder, monkeypatch, capsys, settings, words, code, said):
    if settings is None:
        monkeypatch.delenv("STRATA_SETTINGS")
    else:
        monkeypatch.setenv("STRATA_SETTINGS", str(folder / settings))
    assert run(words.split()) == code
    assert capsys.readouterr().err.startswith(f"strata: {said}")


@pytest.mark.parametrize(
    ("java_home", "path", "said"),
    [("/nope", None, "JAVA_HOME names a folder without Java"), (None, "/nope", "there is no Java, which Spark needs")],
)
def test_spark_without_java(monkeypatch, java_home, path, said):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if java_home:
        monkeypatch.setenv("JAVA_HOME", java_home)
    monkeypatch.setenv("PATH", path or os.environ["PATH"])
    with pytest.raises(Permanent, match=said):
        run_job(CHECK.program, "/nope", "local[1]")


@pytest.mark.mysql
def test_a_missing_grant_is_no_wrong_password(folder, mysql_server, monkeypatch, capsys):
    mysql_server.run_sql("CREATE USER IF NOT EXISTS nogrant@localhost IDENTIFIED BY 'pw'")
    (folder / "strata.toml").write_text('lake = "lake"\n[sources.shop]\nconnection = "x"\n')
    for account, said in (
        ("nogrant:pw", "a grant is missing for the store at"),
        ("nogrant:wrong", "the store at"),
    ):
        monkeypatch.setenv("AIRFLOW_CONN_X", f"mysql://{account}@127.0.0.1:{mysql_server.port}/")
        for words in (["snapshot"], ["track"], ["status"]):
            assert run(words) == 3
            printed = capsys.readouterr().err
            assert printed.startswith(f"strata: {said}")
            assert ("GRANT ALL ON strata.* TO nogrant" in printed) == (account == "nogrant:pw")
            assert ("refuses the user" in printed) == (account == "nogrant:wrong")


@pytest.mark.mysql
def test_a_table_that_may_not_be_read_is_no_wrong_password(mysql_server):
    mysql_server.run_sql(
        "DROP USER IF EXISTS half; CREATE USER half; DROP DATABASE IF EXISTS half; CREATE DATABASE half;"
        "CREATE TABLE half.t (a INT, b INT); GRANT SELECT (a) ON half.t TO half"
    )
    address = ServerAddress("127.0.0.1", mysql_server.port, "half")
    for password, statement, remedy in (
        ("", "SELECT b FROM half.t", "Run `strata doctor` for the grants"),
        ("", "SELECT a FROM mysql.user", "Run `strata doctor` for the grants"),
        ("wrong", "SELECT a FROM half.t", "Check user and password"),
    ):
        tried = replace(address, password=password)
        with (
            pytest.raises(AccessDeniedError) as caught,
            server_errors(tried),
            open_connection(tried) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
        assert caught.value.remedy.startswith(remedy)


@pytest.mark.mysql
@pytest.mark.parametrize("server", ["mysql_server", "mariadb_server"])
def test_the_grant_for_a_store_is_for_this_database_alone(folder, request, monkeypatch, capsys, server):
    """`_` is a wildcard in GRANT."""
    server = request.getfixturevalue(server)
    server.run_sql(
        "CREATE USER keeper; DROP DATABASE IF EXISTS str_ata; CREATE DATABASE str_ata;"
        "DROP DATABASE IF EXISTS strxata; CREATE DATABASE strxata"
    )
    monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
    for database in ("str_ata", "strxata"):
        store = f"mysql+pymysql://keeper@127.0.0.1:{server.port}/{database}"
        (folder / "strata.toml").write_text(f'lake = "lake"\n[sources.shop]\nconnection = "x"\nstore = "{store}"\n')
        assert run(["track"]) == 3
        (statement,) = re.findall(r"GRANT ALL ON [^ ]+ TO keeper", capsys.readouterr().err)
        if database == "str_ata":
            server.run_sql(statement)
            run(["track"])
            assert "GRANT" not in capsys.readouterr().err
    server.run_sql("DROP USER keeper; DROP DATABASE str_ata; DROP DATABASE strxata")
