"""`strata sql --engine spark`: the server's answers, or a refusal by name; the rows and errors that DuckDB has."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import strata_cdc
from strata_cdc.cli.main import run
from strata_cdc.dialects.queries.collations import collation_key
from strata_cdc.dialects.queries.query import TranslatedQuery
from strata_cdc.errors import DamagedFileError, Permanent, QueryError, Usage
from strata_cdc.mirrors.table import Mirror
from strata_cdc.past.duckdb_engine import run_in_duckdb
from strata_cdc.past.query import answer
from strata_cdc.past.table_rows import LoadedRows
from strata_cdc.schema.model.definition import TableName
from strata_cdc.spark_jobs.past_queries import run_in_spark
from strata_cdc.spark_jobs.query_engines import query_engine
from tests.past.past_world import Pairs, PastWorld
from tests.past.test_random_queries import ask, drop_kept, live, show
from tests.past.test_sql import executed, settings
from tests.seeds import seeds
from tests.spark_session import spark

if TYPE_CHECKING:
    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow, pytest.mark.spark, pytest.mark.usefixtures("spark")]
VALUES = Path(__file__).with_name("edge_values.sql")
*QUERIES, ONLY_DUCKDB = Path(__file__).with_name("edge_queries.sql").read_text().splitlines()[1:]
SPARK_ASKED = int(os.environ.get("STRATA_PAST_SPARK", "8"))
"""How many of these queries are asked of Spark; if all are, so are the random ones at each moment."""
COLLATIONS = (
    "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin", "utf8mb4_bin",
    "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci", "utf8mb3_general_ci", "latin1_swedish_ci",
    "latin1_general_ci", "latin1_bin", "ascii_general_ci", "ascii_bin", "utf8mb4_uca1400_ai_ci",
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds())
def test_values_at_the_ends_of_their_types(world: PastWorld, seed: int) -> None:
    world.server.run_sql(VALUES.read_text(), "shop")
    world.publish()
    world.update()
    at = world.keep(0)
    queries = Random(seed).sample(QUERIES, min(SPARK_ASKED, len(QUERIES)))
    on_duckdb, on_spark, others = Pairs(), Pairs(), Pairs()
    for query in queries:
        world.compare(query, 0, at, on_duckdb, run_in_duckdb)
        world.compare(query, 0, at, on_spark, run_in_spark)
    for query in (*{*QUERIES}.difference(queries), ONLY_DUCKDB):
        world.compare(query, 0, at, others, run_in_duckdb)
    with pytest.raises(QueryError):
        answer(world.readable, ONLY_DUCKDB.replace("{db}", "shop"), at, run_in_spark)
    drop_kept(world.server, 1)
    for pairs in (on_duckdb, on_spark, others):
        show(pairs)
        assert pairs.wrong == []
    # Spark answers all others that DuckDB answers.
    assert on_spark.equal == on_duckdb.equal


@pytest.mark.parametrize("seed", seeds())
def test_spark_answers_as_the_server_did(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    world, random = PastWorld(server, tmp_path), Random(seed)
    moments = live(world, random)
    asked = moments if len(QUERIES) <= SPARK_ASKED else moments[:1]
    pairs = ask(world, asked, random, run_in_spark)
    drop_kept(server, len(moments))
    show(pairs)
    assert pairs.wrong == []
    assert pairs.equal > pairs.refused.total()


@pytest.mark.parametrize("collation", COLLATIONS)
def test_keys_of_a_collation_are_those_of_duckdb(collation: str) -> None:
    """Of all texts of one known character, of texts of several, and of those that are refused."""
    key, random = collation_key(collation), Random(1)
    assert key is not None
    known = key.characters or "aA \u00e4\u00df\u65e5\U0001f600'\\\\%_-^[]&$"
    texts = [*known, "", *("".join(random.choices(known + "  ", k=5)) for _ in range(300))]
    names = [key.macro, key.pattern_macro, *([key.order_macro] if key.is_total else [])]
    keys = ", ".join(f"{name}(c0, 'n') AS c{at}" for at, name in enumerate(names, 1))
    query = TranslatedQuery(f"SELECT c0, {keys} FROM t0", tuple(key.macros()), key.functions(), (), {}, {})
    tables = {"t0": LoadedRows(pa.table({"c0": texts}))}
    mine, theirs = (sorted(engine(query, tables).to_pylist(), key=str) for engine in (run_in_spark, run_in_duckdb))
    assert mine == theirs
    if key.characters is None:
        return
    for engine in (run_in_spark, run_in_duckdb):
        with pytest.raises(QueryError, match=r"n: .* is not known here for a character of this text: a\u65e5"):
            engine(query, {"t0": LoadedRows(pa.table({"c0": ["a", "a\u65e5"]}))})


def both(world: PastWorld, query: str, at: str | None = None) -> list[dict[str, Any]]:
    """The rows that both engines give."""
    mine, theirs = (answer(world.readable, query, at, engine).rows for engine in (run_in_spark, run_in_duckdb))
    assert mine.schema == theirs.schema
    assert sorted(mine.to_pylist(), key=str) == sorted(theirs.to_pylist(), key=str)
    return mine.to_pylist()


@pytest.mark.soak
def test_rows_of_all_moments_and_all_versions(world: PastWorld) -> None:
    """Dead rows, several files, renamed columns, another type, and values that no column holds."""
    world.server.run_sql(
        "SET sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, day DATE, price DECIMAL(8, 2), u BIGINT UNSIGNED,"
        "f FLOAT, b BIT(3), p POINT); INSERT INTO t VALUES (1, '0000-00-00', 1.5, 18446744073709551615, 0.1, b'101',"
        "POINT(1, 2)), (2, '2024-02-29', 2, 0, NULL, NULL, NULL), (3, NULL, NULL, NULL, -1e30, b'0', NULL)",
        "shop",
    )
    moments = [executed(world)]
    for number in range(4, 7):
        world.publish()
        world.update()
        world.server.run_sql(
            f"INSERT INTO t VALUES ({number}, '2024-01-0{number}', {number}, {number}, 1, b'1', NULL);"
            f"DELETE FROM t WHERE id = {number - 2}; UPDATE t SET price = price + 1 WHERE id = {number}",
            "shop",
        )
        moments.append(executed(world))
    world.server.run_sql(
        "SET sql_mode = ''; ALTER TABLE t RENAME COLUMN price TO cost, MODIFY id BIGINT; DELETE FROM t WHERE id = 4",
        "shop",
    )
    world.publish()
    for at in moments:
        assert len(both(world, "SELECT id, price, u, f, b, p FROM shop.t", at)) == 3
        assert both(world, "SELECT COUNT(*) AS n FROM shop.t", at) == [{"n": 3}]
    last = executed(world)
    assert both(world, "SELECT id, cost FROM shop.t WHERE id > 4", last) == [
        {"id": 5, "cost": Decimal("6.00")},
        {"id": 6, "cost": Decimal("7.00")},
    ]
    assert len(both(world, "SELECT id, cost, _valid_from, _valid_to, _gtid FROM shop.t FOR SYSTEM_TIME ALL", last)) > 6
    assert both(world, "SELECT COUNT(*) AS n FROM shop.t FOR SYSTEM_TIME ALL", last) != [{"n": 0}]
    first, then = f"shop.t FOR SYSTEM_TIME AS OF GTID '{moments[0]}'", f"shop.t FOR SYSTEM_TIME AS OF GTID '{last}'"
    joined = f"SELECT a.id, a.price, b.cost FROM {first} a LEFT JOIN {then} b ON a.id = b.id"
    assert len(both(world, joined)) == 3
    for engine in (run_in_spark, run_in_duckdb):
        with pytest.raises(QueryError, match="0000-00-00"):
            answer(world.readable, "SELECT id FROM shop.t WHERE day IS NULL", last, engine)
    world.server.run_sql("TRUNCATE TABLE t", "shop")
    world.publish()
    assert both(world, "SELECT * FROM shop.t", executed(world)) == []


def test_the_command_and_its_refusals(
    world: PastWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.server.run_sql(
        "CREATE TABLE o (id INT PRIMARY KEY, at DATETIME(2)); INSERT INTO o VALUES (1, NULL), (2, NULL)", "shop"
    )
    world.publish()
    world.update()
    settings(world, monkeypatch)
    on_spark = ["--engine", "spark"]
    assert run(["sql", "SELECT * FROM shop.o ORDER BY id", "--format", "jsonl", *on_spark]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"id": 1, "at": None},
        {"id": 2, "at": None},
    ]
    assert strata_cdc.sql("SELECT COUNT(*) AS n FROM shop.o", engine="spark").to_pylist() == [{"n": 2}]
    many = ", ".join(map(str, range(1, 5_001)))
    assert run(["sql", f"SELECT id FROM shop.o WHERE id IN ({many}) ORDER BY id", "--format", "csv", *on_spark]) == 0
    assert capsys.readouterr().out == '"id"\n1\n2\n'
    for statement, message in {
        "SELECT (SELECT id FROM shop.o)": "a subquery that is a value gives several rows",
        "SELECT id, (SELECT p.id FROM shop.o p WHERE p.id > o.id - 9) FROM shop.o": "gives several rows",
        "SELECT id + 9223372036854775807 FROM shop.o": "out of range",
        "SELECT MAX(id), id > 1 FROM shop.o": "neither grouped by",
    }.items():
        assert run(["sql", statement, *on_spark]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(Usage, match="no engine trino"):
        strata_cdc.sql("SELECT 1", engine="trino")
    mirror = Mirror.open(world.lake, world.name, TableName("shop", "o"))
    assert mirror is not None
    for path in mirror.snapshot.files:
        Path(mirror.url, path).write_bytes(b"PAR1")
    with pytest.raises(DamagedFileError, match="a data file of the mirror"):
        answer(world.readable, "SELECT * FROM shop.o", executed(world), run_in_spark)
    monkeypatch.setenv("JAVA_HOME", "/nope")
    with pytest.raises(Permanent, match=r"without Java, which Spark needs.*Without `--engine spark`"):
        query_engine("spark")
