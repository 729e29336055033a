"""What OpenLineage is told: datasets by its standard's names, with the columns of the version that decoded the rows.
That a collector receives it of a real run, `tests/airflow/test_ingest.py` has."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from openlineage.client.serde import Serde

from strata_cdc.airflow import lineage, lineage_facets
from strata_cdc.changes.plan import PlannedVersion
from strata_cdc.config.settings import Source, load_settings
from strata_cdc.errors import LostTableError
from strata_cdc.ops.lineage.describe import describe_emptied, describe_published
from strata_cdc.ops.lineage.versions import describe_versions
from strata_cdc.pipeline.publish.report import PublishReport
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.runs.run_folder import DecodedRun, read_plan, write_decoded, write_plan
from strata_cdc.runs.specs import RowsRemoved
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from tests.publishing import publish_staged
from tests.quality.checked_run import FIELDS, RUN, SERVER, SHAPE, write_run, write_run_of
from tests.schema.streams import Stream, track
from tests.tables.changes import INTERVAL, SOURCE, definition, inserts, stage

if TYPE_CHECKING:
    from pathlib import Path

HERE = "mysql://db.example:3307"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "strata.toml").write_text('lake = "lake"\n[sources.shop]\nconnection = "c"\n')
    environment = {"STRATA_SETTINGS": str(tmp_path / "strata.toml")}
    return load_settings(environment, lambda _: "mysql://u:sEcReT@db.example:3307/").source("shop")


def as_sent(datasets: list[Any]) -> Any:
    """As it travels, without what the client says of itself."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items() if not name.startswith("_") or name == "_before"}
        return [plain(one) for one in value] if isinstance(value, list) else value

    return [plain(json.loads(Serde.to_json(one))) for one in datasets]


def published(source: Source, lake: Path) -> tuple[Any, Any]:
    check_interval(str(lake), SOURCE, RUN, pytest.fail, None)
    parts = describe_published(str(lake), publish_staged(str(lake), SOURCE, RUN))
    found = lineage_facets.published(source, parts)
    return as_sent(found.inputs), as_sent(found.outputs)


def test_a_renamed_column_comes_from_each_name_under_its_own_version(source: Source, tmp_path: Path) -> None:
    folder = write_run(tmp_path, [{"id": 1, "status": "new"}])
    kinds = {"id": pa.int64(), "state": pa.string()}
    later = inserts(kinds, [{"id": 2, "state": "x"}], version_id=2, first_seq=5)
    plan = read_plan(folder)
    shape = definition({"id": "bigint NOT NULL", "state": "varchar(9)"}).to_json()
    both = (*plan.versions, PlannedVersion("shop", "orders", 2, shape))
    write_plan(folder, replace(plan, versions=both, tables=(replace(plan.tables[0], rows=2, counted=2),)))
    first = inserts({"id": pa.int32(), "status": pa.string()}, [{"id": 1, "status": "new"}])
    write_decoded(folder, DecodedRun(stage(folder.join("staged"), first, later)))
    [read], [written] = published(source, tmp_path)
    assert (read["namespace"], read["name"]) == (HERE, "shop.orders")
    assert [(one["name"], one["type"]) for one in read["facets"]["schema"]["fields"]] == [
        ("id", "bigint"),
        ("state", "varchar(9)"),
    ]
    assert read["facets"]["version"]["datasetVersion"].endswith(":1-9")
    assert (written["namespace"], written["name"]) == ("file", f"{tmp_path}/changes/shop/shop/orders")
    assert written["facets"]["storage"] == {"storageLayer": "delta", "fileFormat": "parquet"}
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 2
    fields = written["facets"]["columnLineage"]["fields"]
    came_from = {name: [one["field"] for one in found["inputFields"]] for name, found in fields.items()}
    assert came_from == {
        "id": ["id"],
        "status": ["status"],
        "id__long": ["id"],
        "state": ["state"],
        "_before": ["id", "status", "state"],
    }
    assert {(one["namespace"], one["name"]) for found in fields.values() for one in found["inputFields"]} == {
        (HERE, "shop.orders")
    }
    assert {"id", "id__long", "_seq"} <= {one["name"] for one in written["facets"]["schema"]["fields"]}


def test_what_the_checks_found_is_told_of_rows_that_are_withheld_too(source: Source, tmp_path: Path) -> None:
    write_run(tmp_path, [{"id": 1, "status": "new"}, {"id": 2, "status": "lost"}])
    [read], written = published(source, tmp_path)
    assert written == []
    found = read["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert len(found) > 3
    failed = [one for one in found if not one["success"]]
    assert [(one["assertion"], one["column"], one["severity"]) for one in failed] == [
        ("expect_column_values_to_be_in_set", "status", "error")
    ]
    assert failed[0]["actual"] == "1 rows break it"
    assert "lost" not in json.dumps(read), "no value of a row travels"


@pytest.mark.parametrize("what", ["folder", "log"])
def test_of_a_table_that_was_lost_nothing_is_told(source: Source, tmp_path: Path, what: str) -> None:
    write_run(tmp_path, [{"id": 1, "status": "new"}])
    check_interval(str(tmp_path), SOURCE, RUN, pytest.fail, None)
    report = publish_staged(str(tmp_path), SOURCE, RUN)
    folder = tmp_path / "changes" / "shop" / "shop" / "orders"
    if what == "folder":
        shutil.rmtree(folder)
    else:
        next((folder / "_delta_log").glob("*.json")).write_text("{")
    with pytest.raises(LostTableError):
        describe_published(str(tmp_path), report)


def test_a_table_that_was_emptied_is_told(source: Source, tmp_path: Path) -> None:
    write_run(tmp_path, [{"id": 1, "status": "new"}], truncated=True)
    check_interval(str(tmp_path), SOURCE, RUN, pytest.fail, None)
    report = publish_staged(str(tmp_path), SOURCE, RUN)
    [event] = lineage_facets.versions(source, describe_emptied(str(tmp_path), report))
    [reported] = as_sent(event.outputs)
    assert (reported["namespace"], reported["name"]) == (HERE, "shop.orders")
    assert reported["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "TRUNCATE"
    assert "schema" not in reported["facets"], "its columns stay"
    assert reported["facets"]["version"]["datasetVersion"].endswith(":1-9")


@pytest.mark.parametrize(("statement", "database"), [("TRUNCATE t", "a.b"), ("TRUNCATE `a`.`b.t`", "a")])
def test_a_name_with_dots_is_the_one_of_the_statement(tmp_path: Path, statement: str, database: str) -> None:
    removed = (RowsRemoved(INTERVAL, "a.b.t", f"{SERVER}:4", statement),)
    write_run_of(tmp_path, inserts(FIELDS, [{"id": 1, "status": "new"}]), 1, SHAPE, removed=removed)
    report = PublishReport(SOURCE, RUN, 1, 0, 0, (), ())
    assert [made.table.database for made in describe_emptied(str(tmp_path), report)] == [database]


def test_what_ddl_made_of_tables_in_its_order(source: Source, tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    store, stream = SchemaStore(engine), Stream()
    track(store, stream, "CREATE DATABASE d", "CREATE TABLE old (a INT)", source="shop")
    before = store.newest_version("shop")
    track(
        store,
        stream,
        "CREATE TABLE t (a INT COMMENT 'what')",
        "ALTER TABLE t ADD b INT, ALGORITHM=INSTANT",
        "RENAME TABLE t TO u, old TO t",
        "DROP TABLE u",
        source="shop",
    )
    ids = range(before + 1, store.newest_version("shop") + 1)
    reported = [as_sent(one.outputs) for one in lineage_facets.versions(source, describe_versions(engine, "shop", ids))]
    changes = [
        {
            one["name"]: (
                one["facets"]["lifecycleStateChange"]["lifecycleStateChange"],
                (one["facets"]["lifecycleStateChange"].get("previousIdentifier") or {}).get("name"),
                [field["name"] for field in one["facets"].get("schema", {}).get("fields", [])],
            )
            for one in event
        }
        for event in reported
    ]
    assert changes == [
        {"d.t": ("CREATE", None, ["a"])},
        {"d.t": ("ALTER", None, ["a", "b"])},
        {"d.t": ("RENAME", "d.old", ["a"]), "d.u": ("RENAME", "d.t", ["a", "b"])},
        {"d.u": ("DROP", None, [])},
    ]
    assert reported[0][0]["facets"]["schema"]["fields"][0]["description"] == "what"
    assert {one["namespace"] for event in reported for one in event} == {HERE}
    assert "sEcReT" not in json.dumps(reported)


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("/lake/changes/s/d/t", "file", "/lake/changes/s/d/t"),
        ("s3://bucket/some/lake/changes/s/d/t", "s3://bucket", "some/lake/changes/s/d/t"),
        ("gs://bucket/changes", "gs://bucket", "changes"),
    ],
)
def test_the_names_of_what_is_in_the_lake(url: str, namespace: str, name: str) -> None:
    assert lineage_facets._in_lake(url) == (namespace, name)


def test_without_configuration_nothing_is_read_and_no_client_is_loaded() -> None:
    assert not lineage.is_on()
    lineage.tell_published(SimpleNamespace(source="shop"), None)
    lineage.tell_versions("shop", [1], None)
    lineage.tell_mirrors("shop", ["d.t"], None)
