"""The DAGs on the folder of a TiCDC sink: as on a server, without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc import mirrors
from strata_cdc.errors import Usage
from strata_cdc.pipeline import ingest
from tests.ticdc.generator import START, Feed, Row, SinkTable
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.airflow.pipeline import Pipeline

CREATE = "CREATE TABLE a (id INT PRIMARY KEY, name VARCHAR(20))"

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.soak]


def mirrored(world: SinkWorld) -> list[dict[str, Any]]:
    found = mirrors.open(str(world.folder / "lake"), "s", "shop.a").to_arrow().drop_columns(["_seq"])
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def test_the_dags_run_a_sink_as_any_source(tmp_path: Path, make_pipeline: Callable[..., Pipeline]) -> None:
    """Twice, with rows that TiCDC wrote again; what is for servers is skipped, or refused."""
    (tmp_path / "world").mkdir()
    world = SinkWorld(tmp_path / "world", 'mirrors = ["shop.*"]')
    feed = Feed(world.sink, OLD_VALUES)
    table = SinkTable("shop", "a", (), START + 1)
    feed.ddl(table, START + 1, 3, CREATE, (ID, NAME))
    first = [Row(START + 2, named(1)), Row(START + 3, named(2))]
    feed.write(table, first)
    feed.checkpoint(START + 10)
    pipeline = make_pipeline("mysql://nobody@127.0.0.1:1/", STRATA_SETTINGS=str(world.settings_file))
    pipeline.ingest()
    assert [after for *_, after in world.changes("shop.a")] == [named(1), named(2)]
    feed.write(table, [*first, Row(START + 12, None, named(1)), Row(START + 12, named(3))])
    feed.checkpoint(START + 20)
    said = pipeline.ingest(tables=["shop.a"])
    assert [op for _, op, *_ in world.changes("shop.a")] == ["insert", "insert", "delete", "insert"]
    assert mirrored(world) == [named(2), named(3)]
    assert "what the server of s" not in said
    versions = pipeline.asset_events("strata://s/schema")
    assert [version["statement"] for version in versions if "shop.a" in version["tables"]] == [CREATE]
    skipped = pipeline.test_dag("snapshot_schemas")
    assert "state=success" in skipped.rsplit("DagRun Finished", 1)[-1]
    assert "a TiCDC folder has its schemas itself" in skipped
    with pytest.raises(Usage, match="is a GTID set"):
        ingest.plan("s", None, None, settings=pipeline.settings, gtid_set="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
