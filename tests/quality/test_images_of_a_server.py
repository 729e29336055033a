"""Images across intervals and users' expectations, on the rows of a real server: run after run, with DDL in between."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from strata_cdc.config.settings import load_settings
from strata_cdc.files.storage import content_digest
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.quality.check_step.check_interval import Checking, check_interval
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.quality.checks import earlier_images as reasons
from strata_cdc.runs.run_folder import read_decoded, read_verdicts, run_folder, write_decoded
from tests.spark_session import spark

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = pytest.mark.mysql

FIRST = """
CREATE DATABASE shop; USE shop;
CREATE TABLE a (id BIGINT UNSIGNED PRIMARY KEY, price INT, x INT, y INT, note VARCHAR(20), at TIMESTAMP(3) NULL);
CREATE TABLE p (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10),
  PARTITION p1 VALUES LESS THAN MAXVALUE);
CREATE TABLE k (a VARCHAR(10), b INT, v JSON, PRIMARY KEY (b, a));
INSERT INTO a VALUES (1, 1, 1, 9, 'one', NOW(3)), (2, 2, 2, 8, 'two', NULL), (3, 3, 3, 7, NULL, NULL),
  (4, 4, 4, 6, '', NULL);
INSERT INTO p VALUES (1, 1), (2, 2), (11, 11), (12, 12);
INSERT INTO k VALUES ('x', 1, '{"a": 1}'), ('y', 1, NULL), ('x', 2, '[]');
"""
LATER = (
    # Keys that change, rows that come back, a DDL with renames in the middle; then a type.
    "UPDATE a SET id = 30 WHERE id = 3; DELETE FROM a WHERE id = 4; INSERT INTO a VALUES (4, 5, 5, 5, 'new', NULL);"
    "UPDATE k SET v = JSON_SET(v, '$.b', 2) WHERE a = 'x' AND b = 1; DELETE FROM k WHERE b = 2;",
    "UPDATE a SET price = price + 1; ALTER TABLE a RENAME COLUMN price TO amount, RENAME COLUMN x TO y,"
    "RENAME COLUMN y TO x; UPDATE a SET amount = amount + 1;",
    "SET sql_mode = ''; ALTER TABLE a MODIFY note VARCHAR(10) NOT NULL DEFAULT '', MODIFY amount BIGINT;"
    "UPDATE a SET x = x + 1; TRUNCATE p; INSERT INTO p VALUES (1, 7), (11, 7);",
    "UPDATE p SET n = 8; ALTER TABLE p DROP PARTITION p0; UPDATE a SET y = 0 WHERE id = 30;",
    "UPDATE p SET n = 9; INSERT INTO p (id, n) VALUES (12, 1); DELETE FROM a WHERE id = 1;"
    "UPDATE k SET b = 5 WHERE a = 'y';",
    "SET SESSION binlog_row_image = MINIMAL; UPDATE a SET amount = 0 WHERE id = 2;",
    "DELETE FROM a WHERE id = 2; UPDATE k SET v = 'null';",
)  # fmt: skip


COMPARED = [4, 8, 4, 3, 2, 2]
"""Images that are compared with earlier ones, run by run."""


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    server.run_sql(FIRST)
    return server


@pytest.fixture
def source(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "strata.toml").write_text(
        f'lake = "lake"\nstore = "sqlite:///{tmp_path}/s.db"\n[sources.s]\nconnection = "x"\ntables = ["shop.*"]\n'
        'checks = "checks"\n'
    )
    (tmp_path / "checks").mkdir()
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_X", server.url)
    return load_settings(os.environ)


OWN = (
    """CREATE DATABASE own; USE own;
    CREATE TABLE t (id INT PRIMARY KEY, price INT, x INT, y INT, state VARCHAR(9), gone INT);
    INSERT INTO t VALUES (1, 1, 1, 1, 'new', 1), (2, 1, 1, 1, 'new', 1);""",
    """USE own; UPDATE t SET price = -1, y = NULL WHERE id = 1;
    ALTER TABLE t RENAME COLUMN price TO amount, RENAME COLUMN x TO y, RENAME COLUMN y TO x, DROP gone;
    INSERT INTO t (id, amount, x, y, state) VALUES (3, -3, 1, NULL, 'new'), (4, 4, NULL, 1, 'old');
    ALTER TABLE t RENAME COLUMN x TO y, RENAME COLUMN y TO x, RENAME COLUMN state TO status, ADD gone BIGINT;
    INSERT INTO t (id, amount, x, y, status) VALUES (5, -5, NULL, 1, 'old'), (6, -6, NULL, 1, 'NEW');
    UPDATE t SET amount = 7 WHERE id = 2;""",
)
NOT_NULL = "expect_column_values_to_not_be_null"
EXPECTATIONS: list[dict[str, Any]] = [
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "price", "min_value": 0}, "owner": "payments",
     "where": "state = 'new'"},
    {"type": NOT_NULL, "kwargs": {"column": "x"}, "severity": "warning"},
    {"type": NOT_NULL, "kwargs": {"column": "y"}, "severity": "warning", "versions": {"to": 0}},
    {"type": NOT_NULL, "kwargs": {"column": "gone"}, "severity": "warning"},
]  # fmt: skip


def tampered(lake: str, run: str, table: str) -> None:
    """Makes an image before a change another one than what was left, in the first file of a table that has one."""
    folder = run_folder(lake, "s", run)
    decoded = read_decoded(folder)
    for at, file in enumerate(decoded.files):
        content = pq.read_table(file.url, partitioning=None)
        images = content["_before"].to_pylist()
        changed = [number for number, image in enumerate(images) if image is not None and image["id"] == 2]
        if file.table == table and changed:
            images[changed[0]]["amount"] = 99
            place = content.schema.get_field_index("_before")
            content = content.set_column(place, "_before", pa.array(images, content.schema.field(place).type))
            pq.write_table(content.cast(content.schema), file.url)
            written = Path(file.url).read_bytes()
            new = replace(file, digest=content_digest(written), size_bytes=len(written))
            write_decoded(folder, replace(decoded, files=(*decoded.files[:at], new, *decoded.files[at + 1 :])))
            return
    pytest.fail("no change of row 2 was decoded")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
def test_columns_are_followed_and_what_was_not_left_is_found(server: MysqlServer, source: Any, spark: Any) -> None:
    """Renames in the middle of an interval, two names that go round, a column that is dropped and added again."""
    settings = source.folder / "strata.toml"
    settings.write_text(settings.read_text().replace("shop.*", "own.*"))
    source = load_settings(os.environ)
    server.run_sql(OWN[0])
    lake, run = plan_and_decode(source)
    check(lake, run, Checking())
    ingest.publish("s", run, settings=source)
    server.run_sql(OWN[1])
    lake, run = plan_and_decode(source)
    versions = sorted({file.version_id for file in read_decoded(run_folder(lake, "s", run)).files})
    assert len(versions) == 3
    EXPECTATIONS[2]["versions"] = {"from": versions[1], "to": versions[1]}
    folder = source.folder / "checks"
    (folder / "own.t.json").write_text(json.dumps({"expectations": EXPECTATIONS}))
    tampered(lake, run, "t")
    lines, failures = check(lake, run, Checking(str(folder)), lambda: spark)
    assert "compared 2 images with those of earlier intervals" in lines
    ours = sorted((one.check, one.column or "", one.message, one.unexpected_rows) for one in failures)
    between = EXPECTATIONS[0]["type"]
    assert [(check, column, rows) for check, column, _, rows in ours] == [
        (between, "amount", 1), (between, "amount", 1), (between, "price", 1),
        (NOT_NULL, "x", 2), (NOT_NULL, "y", 1), (NOT_NULL, "y", 1),
        (reasons.CHECK, "", 1),
    ]  # fmt: skip
    for number, version in enumerate(versions[1:]):
        assert f"owner: payments; own.t.json, line 1); price is called amount in version {version}" in ours[number][2]
    assert "state is called status there" in ours[1][2]


def plan_and_decode(settings: Any) -> tuple[str, str]:
    """Lake and name of the next run, whose rows are staged."""
    ingest.land("s", settings=settings)
    ingest.track("s", settings=settings)
    report = ingest.plan("s", None, None, settings=settings)
    files = [file for task in planned_tasks(report.run_url) for file in decode_slice_to_files(task)]
    store_decoded(report.run_url, files)
    return settings.source("s").lake, report.run


def check(lake: str, run: str, checking: Checking, open_spark: Any = None) -> tuple[list[str], list[Any]]:
    """What the check says while it runs, and what does not hold."""
    lines: list[str] = []
    check_interval(lake, "s", run, open_spark, checking, CheckProgress(lines.append))
    verdicts = read_verdicts(run_folder(lake, "s", run)).values()
    return lines, [failure for verdict in verdicts for failure in verdict.failures]


def test_a_right_run_has_no_image_that_was_not_left(server: MysqlServer, source: Any) -> None:
    said = []
    for statements in ("", *LATER):
        server.run_sql(f"USE shop; {statements}")
        lake, run = plan_and_decode(source)
        lines, failures = check(lake, run, Checking(compare_keys=None))
        assert [failure for failure in failures if failure.check == reasons.CHECK] == []
        ingest.publish("s", run, settings=source)
        said += [line for line in lines if line.startswith("compared")]
    assert [int(line.split()[1]) for line in said] == COMPARED, said
    assert any(reasons.UNLOGGED in line for line in said), said
    assert any(reasons.PARTIAL in line for line in said), said
    # The same interval again, behind which others are published by now.
    found = [name.name for name in sorted((source.folder / "lake" / "runs" / "s").iterdir())]
    assert len(found) == len(LATER) + 1
