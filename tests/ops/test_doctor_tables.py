"""What doctor says of the lake, of tables, and of users' own expectations."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.cli.main import run
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.files.storage import list_files
from strata_cdc.ops.doctor.check_lake import check_lake
from strata_cdc.ops.doctor.check_source import check_source
from strata_cdc.ops.doctor.check_tables import check_arguments, check_merges, check_own, check_patterns
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.schema.model.definition import TableName
from tests.mariadb_server import FAMILIES, start_family
from tests.s3_server import BUCKET
from tests.store_proxy import CARELESS, UNLISTED, store_proxy

KNOWN = [TableName("app", "orders"), TableName("app", "users"), TableName("logs", "hits")]
EXPECTATION = "expectations: [{type: expect_column_values_to_not_be_null, kwargs: {column: id}}]"


def source(*tables: str, exclude: tuple[str, ...] = (), lake: str = "-", checks: str | None = None) -> Source:
    settings = SourceSettings("-", tables=tables, exclude=exclude, checks=checks)
    return Source("shop", ServerAddress("127.0.0.1", 1), lake, "sqlite:////nowhere/s.db", settings)


@pytest.mark.parametrize(
    ("tables", "exclude", "severity", "said"),
    [
        (("*.*",), (), "ok", "3 tables of 3 wanted"),
        (("app.*", "logs.hit"), ("app.o*",), "warning", '1 table of 3 wanted; "logs.hit" matches no table: do you mean '
         "logs.hits?"),
        (("APP.*",), (), "error", 'no table is wanted: "APP.*" matches no table: do you mean app.*?'),
        (("app.*",), ("app.*",), "error", "no table is wanted: all that they match is excluded"),
        (("app.*",), ("tmp.*",), "ok", "2 tables of 3 wanted"),
    ],
)  # fmt: skip
def test_patterns_are_held_against_the_tables_there_are(tables, exclude, severity, said):
    found = check_patterns(source(*tables, exclude=exclude), KNOWN, folded=False)
    assert (found.severity, found.what) == (severity, said)
    assert (found.remedy is None) is (severity == "ok")


def test_a_server_that_folds_names_takes_patterns_of_any_case():
    assert check_patterns(source("APP.Orders"), KNOWN, folded=True).what == "1 table of 3 wanted"
    assert check_patterns(source("APP.*"), [], folded=False).severity is FindingSeverity.OK


def test_a_lake_can_be_written_and_is_left_as_it_was(lake: str):
    if "://" not in lake:
        assert check_lake(lake, "shop").what == f"{lake}: not there yet; it is made by the first landing"
        Path(lake).mkdir()
    found = check_lake(lake, "shop")
    assert (found.severity, found.what) == (FindingSeverity.OK, f"{lake}: can be written, listed and read")
    assert list_files(lake) == []


@pytest.mark.slow
def test_a_store_that_honours_no_conditions_is_refused(s3_environment, monkeypatch, tmp_path):
    with store_proxy(s3_environment["AWS_ENDPOINT_URL"], tmp_path) as proxy:
        for name, value in (s3_environment | {"AWS_ENDPOINT_URL": proxy.endpoint}).items():
            monkeypatch.setenv(name, value)
        lake = f"s3://{BUCKET}/{uuid4().hex}"
        assert check_lake(lake, "shop").severity == FindingSeverity.OK
        proxy.spoil(("PUT", ".*", 1, CARELESS))
        found = check_lake(lake, "shop")
        assert (found.severity, "If-None-Match" in found.what) == (FindingSeverity.ERROR, True)
        assert list_files(lake) == []


@pytest.mark.slow
@pytest.mark.parametrize("requests", ["PUT", "DELETE"])
def test_a_store_that_lists_late_is_a_warning(s3_environment, monkeypatch, tmp_path, requests):
    with store_proxy(s3_environment["AWS_ENDPOINT_URL"], tmp_path) as proxy:
        for name, value in (s3_environment | {"AWS_ENDPOINT_URL": proxy.endpoint}).items():
            monkeypatch.setenv(name, value)
        lake = f"s3://{BUCKET}/{uuid4().hex}"
        proxy.spoil((requests, ".*", 1, f"{UNLISTED} 1"))
        found = check_lake(lake, "shop")
        assert (found.severity, "lists late" in found.what) == (FindingSeverity.WARNING, True)
        proxy.spoil()
        assert list_files(lake) == []


@pytest.mark.slow
def test_a_lake_that_cannot_be_written_is_an_error(s3_environment, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    local = check_lake(str(tmp_path / "file" / "lake"), "shop")
    assert (local.severity, local.name) == (FindingSeverity.ERROR, "lake")
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    remote = check_lake("s3://no-such-bucket/lake", "shop")
    assert remote.severity is FindingSeverity.ERROR
    assert "AWS_ENDPOINT_URL" in remote.remedy


def test_files_of_expectations_are_read(tmp_path):
    (tmp_path / "app.orders.yaml").write_text(EXPECTATION)
    (tmp_path / "app.user.yaml").write_text(EXPECTATION)
    (tmp_path / "logs.hits.json").write_text('{\n "expectation": []}')
    (tmp_path / "README.md").write_text("notes")
    orders, user, hits = check_own(str(tmp_path), KNOWN)
    assert (orders.severity, orders.what) == ("ok", "app.orders.yaml: 1 expectation")
    assert (user.severity, user.remedy) == ("warning", "Name it app.users.yaml.")
    assert "a table that nobody knows" in user.what
    assert hits.severity == "error"
    assert "line 2: expectation is not a field: do you mean expectations?" in hits.what
    (missing,) = check_own(str(tmp_path / "none"), KNOWN)
    assert (missing.severity, "is not there" in missing.what, missing.remedy is None) == ("error", True, False)


def test_a_server_that_does_not_answer_leaves_the_rest_to_be_looked_at(tmp_path):
    found = check_source(source("app.*", lake=str(tmp_path), checks=str(tmp_path / "none")))
    assert [(one.name, str(one.severity)) for one in found] == [
        ("connection", "error"), ("lake", "ok"), ("checks", "error"),
    ]  # fmt: skip


@pytest.fixture
def shop(server, tmp_path, monkeypatch):
    """Settings of a source on the shared server, with a relative folder of checks; returns the settings' path."""
    server.run_sql("CREATE DATABASE IF NOT EXISTS words; CREATE TABLE IF NOT EXISTS words.orders (id INT)")
    path = tmp_path / "conf" / "strata.toml"
    (path.parent / "checks").mkdir(parents=True)
    path.write_text(
        'lake = "a lake"\n[sources.shop]\nconnection = "c"\nstore = "sqlite:///my.db"\ntables = ["words.*"]\n'
        'checks = "checks"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(path))
    monkeypatch.setenv("AIRFLOW_CONN_C", server.url)
    return path


@pytest.mark.mysql
def test_the_command_says_it_of_a_real_server(shop, capsys):
    (shop.parent / "checks" / "words.order.yaml").write_text(EXPECTATION)
    run(["doctor", "--source", "shop"])
    said = " ".join(capsys.readouterr().out.split())
    assert "1 table of" in said
    assert "a table that nobody knows" in said
    assert "Name it words.orders.yaml." in said
    shop.write_text(shop.read_text().replace("words.*", "WORDS.*"))
    assert run(["doctor", "--source", "shop"]) == 3
    assert '"WORDS.*" matches no table: do you mean words.*?' in " ".join(capsys.readouterr().out.split())


@pytest.mark.mysql
def test_a_run_stops_at_a_mistake_in_front_of_decoding(shop, capsys):
    """Relative paths are beside the settings, wherever the command stands."""
    assert [run([step, "--source", "shop"]) for step in ("land", "track")] == [0, 0]
    assert {path.name for path in shop.parent.iterdir()} >= {"a lake", "my.db"}
    (shop.parent / "checks" / "words.orders.yaml").write_text("expectations:\n- {ty_pe: a}")
    capsys.readouterr()
    assert run(["check", "--dry-run", "--source", "shop"]) == 2
    assert "line 2: expectations[0].ty_pe is not a field: do you mean type?" in " ".join(
        capsys.readouterr().out.split()
    )
    assert run(["plan", "--source", "shop"]) == 2
    assert "words.orders.yaml" in capsys.readouterr().err
    (shop.parent / "checks" / "words.orders.yaml").unlink()
    (shop.parent / "checks").rmdir()
    assert run(["plan", "--source", "shop"]) == 2
    assert "the folder of `checks` is not there" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dry_run_asks_for_the_arguments(tmp_path):
    (tmp_path / "app.orders.yaml").write_text(EXPECTATION.replace("column:", "col_umn:"))
    (found,) = check_arguments(str(tmp_path))
    assert (found.severity, "app.orders.yaml, line 1" in found.what) == ("error", True)
    assert "col_umn: extra fields not permitted" in found.what
    (tmp_path / "app.orders.yaml").write_text(EXPECTATION)
    assert list(check_arguments(str(tmp_path))) == []


@pytest.mark.mysql
@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_tables_that_are_written_through_others(family, tmp_path):
    with start_family(tmp_path, family) as server, server.connect() as connection:
        assert list(check_merges(connection)) == []
        server.run_sql(
            "CREATE DATABASE d; CREATE TABLE d.a (id INT) ENGINE = MyISAM; CREATE TABLE d.b (id INT) ENGINE = MyISAM;"
            "CREATE TABLE d.both_of_them (id INT) ENGINE = MERGE UNION = (d.a, d.b)"
        )
        (found,) = check_merges(connection)
    assert (found.severity, found.name) == (FindingSeverity.WARNING, "merge tables")
    assert found.what.startswith("d.both_of_them: ")
