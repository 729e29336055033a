"""`strata_cdc.sql` of a user's own program runs on the cluster that spark-submit names. (Of which a worker is killed:
`test_apart.py`.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.past.past_world import PastWorld
from tests.spark.cluster import start_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer
    from tests.spark.cluster import Cluster

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.spark, pytest.mark.soak]
PROGRAM = """
import os
import strata_cdc
from pyspark.sql import SparkSession
from strata_cdc.errors import QueryError
os.environ |= {environment}
print(strata_cdc.sql("SELECT COUNT(*) AS n, MAX(id) AS last FROM shop.t", engine="spark").to_pylist())
spark = SparkSession.getActiveSession()
print(spark.sparkContext.master, spark.catalog.listTables())
try:
    strata_cdc.sql("SELECT COUNT(DISTINCT name) FROM shop.t", engine="spark")
except QueryError as error:
    print(error.message)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster"), workers=1) as running:
        yield running


def test_a_program_under_spark_submit(server: MysqlServer, cluster: Cluster, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = PastWorld(server, tmp_path, name="shop")
    server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9)); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'ss')",
        "shop",
    )
    world.publish()
    world.update()
    server.run_sql("DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (4, '\u00df')", "shop")
    world.publish()
    world.update()
    settings = tmp_path / "strata.toml"
    settings.write_text(
        f'lake = "{world.lake}"\nstore = "sqlite:///{world.folder}/store.db"\n[sources.shop]\nconnection = "x"\n'
    )
    program = tmp_path / "program.py"
    environment = {"STRATA_SETTINGS": str(settings), "AIRFLOW_CONN_X": server.url}
    program.write_text(PROGRAM.replace("{environment}", repr(environment)))
    done = cluster.submit(str(program))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-3:] == [
        "[{'n': 3, 'last': 4}]",
        f"{cluster.master} []",
        "the query has no answer here: name: utf8mb4_0900_ai_ci is not known here for a character of this text: \u00df",
    ]
    # The values of rows are in no log.
    assert "\u00df" not in done.stderr
