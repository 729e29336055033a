"""Conditions in Spark give what they give in Arrow, which gives what the server gives (`test_conditions.py`)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkRuntimeError, SparkRuntimeException

from strata_cdc.dialects.conditions.condition import parse
from tests.dialects.test_conditions import COLUMNS, DEFINITION, ROWS
from tests.spark_session import spark

__all__ = ["spark"]

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONDITIONS = [
    "i = 1", "i <> 1", "i <=> -1", "small > 0 AND big < 18446744073709551615", "big = 9007199254740993", "i IS NULL",
    "big > 1.5", "i + small - 1 >= 7", "(i % -2) = 1", "ABS(small) = 128", "i * i > 4611686018427387904", "-i < 0",
    "dec1 <= -9999999.999", "dec1 = 1.5000", "dec1 > i", "f = 5e-1", "x <> 1e300", "x > 0", "y >= 2024", "NOT i",
    "ci = 'PAID'", "gen <> 'a'", "bin = 'a'", "exact < 'a '", "exact >= ''", "ci <=> 'Ab'", "e = 'IT''S'", "e <> 'x'",
    "ci LIKE 'a%'", "bin LIKE '_'", "gen NOT LIKE '%B'", "ci IN ('a', '50%') OR ci IS NULL", "exact = '\\\\'",
    "ci COLLATE utf8mb4_0900_bin = 'A'", "CHAR_LENGTH(ci) = 1", "`odd ``name` = 2", "exact = 'z''\"'",
    "d = '2024-02-29'", "d BETWEEN '1999-12-31' AND DATE'2000-01-01'", "dt < '2024-02-29 12:34:56.789'",
    "ts > '2000-01-01'", "ts = '2024-02-29 12:34:56.000001'", "tm = '12:34:56.50'", "tm < '00:00:00'",
    "(i = 1) IS UNKNOWN", "(ci = 'a') IS NOT TRUE", "NOT (i = 1 AND y = 2024)", "i IS FALSE",
]  # fmt: skip


def test_the_same_rows(spark: Any, tmp_path: Any) -> None:
    pq.write_table(pa.table(COLUMNS), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    found = frame.selectExpr("id", *(f"{parse(one, DEFINITION).spark()} AS c{at}" for at, one in enumerate(CONDITIONS)))
    theirs = {row["id"]: row for row in found.collect()}
    for at, one in enumerate(CONDITIONS):
        ours = parse(one, DEFINITION).evaluate(COLUMNS).to_pylist()
        assert [theirs[row["id"]][f"c{at}"] for row in ROWS] == ours, one


def test_text_that_is_not_plain_ends_the_evaluation(spark: Any) -> None:
    frame = spark.createDataFrame([("ä",)], "ci string")
    with pytest.raises((SparkRuntimeException, PySparkRuntimeError, Exception), match="more than its characters"):
        frame.filter(parse("ci = 'a'", DEFINITION).spark()).collect()
