"""`decode_slices.py` on one machine: the files of a process without Spark, by name and content.
Not here: a cluster (`test_on_cluster.py`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.config.engines import Engine, EngineChoice, EngineSettings
from strata_cdc.files.storage import Folder
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.runs.run_folder import DECODED, read_decoded
from strata_cdc.values import to_plain
from tests.airflow.pipeline import Pipeline, make_account
from tests.spark.cluster import submit

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.slow]

LIFE = """
CREATE DATABASE shop; USE shop; SET SESSION cte_max_recursion_depth = 1000000;
CREATE TABLE items (id INT PRIMARY KEY, label VARCHAR(40));
INSERT INTO items WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
  SELECT i, CONCAT('label ', i) FROM n;
ALTER TABLE items ADD COLUMN price DECIMAL(8, 2) NOT NULL DEFAULT 1 FIRST;
UPDATE items SET price = id / 100 + 2;
ALTER TABLE items RENAME COLUMN label TO name;
DELETE FROM items WHERE id % 2 = 0;
"""
ROWS = 5000 + 5000 + 2500


@pytest.fixture(scope="module")
def planned(server, tmp_path_factory):
    """A run that is planned: where its folder is."""
    folder = tmp_path_factory.mktemp("planned")
    server.run_sql(LIFE)
    pipeline = Pipeline(folder, make_account(server))
    # Small slices, so that there is something to spread.
    pipeline.state.settings_file.write_text(pipeline.state.default_settings() + "slice_mb = 1\n")
    settings = pipeline.settings
    for step in (ingest.land, ingest.track):
        step("shop", settings=settings)
    report = ingest.plan("shop", None, None, settings=settings)
    assert report.slices >= 3
    return pipeline, report.run_url


def decoded(run_url):
    files = json.loads((Path(run_url) / DECODED).read_text())["files"]
    return {file["url"]: (file["rows"], Path(file["url"]).read_bytes()) for file in files}


def test_a_job_that_a_command_submits_gives_the_files_of_a_process_without_spark(planned):
    pipeline, run_url = planned
    assert decode_here(run_url, EngineSettings(Engine.LOCAL)).rows == ROWS
    without_spark = decoded(run_url)
    steps = EngineSteps(pipeline.settings.source("shop"), Engine.SPARK)
    report = steps.decode(Path(run_url).name)
    assert (report.rows, report.engine) == (ROWS, EngineChoice(Engine.SPARK, "requested"))
    assert read_decoded(Folder.open(run_url)).engine == report.engine
    assert sum(rows for rows, _ in decoded(run_url).values()) == ROWS
    assert decoded(run_url) == without_spark


def test_what_cannot_be_decoded_is_said_with_its_coordinates(planned):
    """The error is printed as data and kept for the check; the rest of the run goes on."""
    pipeline, run_url = planned
    segment = max(pipeline.state.lake.glob("landing/shop/*"), key=lambda path: path.stat().st_size)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    done = submit("local[2]", pipeline.state, "decode_slices.py", "--run-url", run_url)
    assert done.returncode == 0, done.stderr[-3000:]
    # spark-submit sends both streams of the driver to its own stdout.
    *_, report = reported = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = read_decoded(Folder.open(run_url)).failed
    assert (report["failed_slices"], [one.tables for one in failed]) == (1, [(("shop", "items"),)])
    [error] = [line for line in reported if "error" in line]
    assert error == to_plain(failed[0].error)
    assert error["error"] == "ChecksumError"
    assert error["file"].endswith(segment.name)
    assert error["offset"] > 0
    report = decode_here(run_url, EngineSettings(Engine.LOCAL))
    assert report.failed_slices == 1
    assert read_decoded(Folder.open(run_url)).failed == failed
