"""What views make of values whose column got another type is what mirrors make of them, which the server judges
(`tests/tables/test_effects_on_server.py`); or the view says that it does not know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.dialects.conversions import converted, in_sql, stay_apart
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.trees import column_of
from strata_cdc.dialects.view_source import TypeChange
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.conversions import KNOWN, ValueClass, unknown_conversion, value_class
from strata_cdc.schema.model.definition import Column
from strata_cdc.schema.model.types import LABELLED, TypeKind, parse_column_type
from strata_cdc.tables.values import known
from strata_cdc.tables.values.pair import Pair
from tests.seeds import seeds
from tests.spark_session import spark

__all__ = ["spark"]

TYPES = (
    "tinyint", "smallint unsigned", "mediumint", "int", "int unsigned", "bigint", "bigint unsigned", "bit(1)", "bit(9)",
    "year", "decimal(5,2)", "decimal(38,10)", "decimal(12,0)", "decimal(9,3) unsigned", "decimal(45,10)", "float",
    "double", "double unsigned", "char(3)", "varchar(2)", "varchar(30)", "tinytext", "mediumtext", "enum('a','b','x')",
    "enum('x','b','12')", "set('a','b','x')", "varbinary(4)", "varbinary(60)", "blob",
    "int(6) zerofill", "date", "datetime", "datetime(3)", "datetime(6)",
)  # fmt: skip
VALUES: dict[ValueClass, tuple[Any, ...]] = {
    ValueClass.INTEGER: (0, 1, -1, 7, 127, 128, 1999, 65535, -32768, 2**31 - 1, 2**53 + 1, 2**63 - 1, 2**64 - 1),
    ValueClass.BITS: (0, 1, 5, 256, 511),
    ValueClass.YEAR: (1901, 2155, 2020),
    ValueClass.DECIMAL: tuple(map(Decimal, ("0", "0.5", "-0.5", "2.5", "-2.5", "1.005", "999.99", "-0.001", "1e20"))),
    ValueClass.FLOATING: (0.0, 0.5, -2.5, 1.5e20, 1e300),
    ValueClass.TEXT: ("", "a", "A", "b ", "x  ", "12", "+7", "-7", "007", "1.5", "é", "日本", "long enough", "y" * 99),
    ValueClass.BYTES: (b"", b"a", b"\xff\x00", b"y" * 50),
    ValueClass.DATE: (date(2020, 1, 2), date(1000, 1, 1), date(9999, 12, 31)),
    ValueClass.DATETIME: (
        *map(datetime.fromisoformat, ("2020-01-02 03:04:05.499999", "2020-12-31 23:59:59.500000")),
        *map(datetime.fromisoformat, ("1969-12-31 23:59:58.750500", "9999-12-31 23:59:59.999999")),
    ),
}  # fmt: skip


def columns() -> list[Column]:
    texts = {ValueClass.TEXT, ValueClass.ENUM, ValueClass.SET}
    latin, found = ("char(3)", "varchar(30)"), []
    for one in TYPES:
        is_text = value_class(parse_column_type(one).kind) in texts
        sets = ["utf8mb4_bin", "utf8mb4_0900_ai_ci"] if is_text else [None]
        sets += ["latin1_bin"] if one in latin else []
        found += [Column("c", one, character_set=name and name.partition("_")[0], collation=name) for name in sets]
    return found


def values_of(column: Column) -> pa.Array:
    """All values of the class that the column's type holds, and NULL."""
    kind, target = parse_column_type(column.column_type), arrow_type(column)
    if kind.kind in LABELLED:
        return pa.array([*kind.labels, *(["a,x"] if kind.kind is TypeKind.SET else []), "", None], target)
    found = []
    for value in VALUES[value_class(kind.kind)]:
        try:
            # By way of a decimal: integers of Arrow end at 64 bits with a sign.
            plain = Decimal(value) if isinstance(value, int) else value
            made = pa.array([str(plain) if pa.types.is_string(target) else plain]).cast(target)[0]
            found.append(
                known.converted(pa.array([made.as_py()], target), Pair.from_columns(column, column))[0].as_py()
            )
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ReadAgainError):
            continue
    return pa.array([*found, None], target)


def by_mirrors(values: pa.Array, step: TypeChange) -> list[Any]:
    """Each value by itself; an error stands for one that is refused."""
    pair = Pair.from_columns(step.before, step.after, truncates=step.truncates)
    found: list[Any] = []
    for value in values:
        try:
            found.append(known.converted(pa.array([value.as_py()], values.type), pair)[0].as_py())
        except ReadAgainError as error:
            found.append(error)
    return found


class Question(NamedTuple):
    """What an engine is asked about all values of one pair of columns."""

    step: TypeChange
    values: pa.Array
    sql: str

    @property
    def shown(self) -> str:
        return f"{self.step.shown}, {self.step.before.collation} {self.step.after.collation} {self.step.truncates}"


Engine = Callable[[pa.Table, list[str]], pa.Table]
"""Gives expressions over the columns of a table."""


def questions(dialect: Dialect, random: Random, count: int) -> list[Question]:
    own, found = columns(), []
    while len(found) < count:
        before, after = random.choice(own), random.choice(own)
        classes = tuple(value_class(parse_column_type(one.column_type).kind) for one in (before, after))
        if classes not in KNOWN or unknown_conversion(before, after) is not None:
            continue
        step = TypeChange(before, after, truncates=random.random() < 0.3)
        made = converted(column_of(f"c{len(found)}"), step, dialect)
        if made is not None:
            found.append(Question(step, values_of(before), made.sql(dialect.value)))
    return found


def judge(asked: list[Question], engine: Engine) -> Counter[str]:
    """All answers at once: what mirrors make of each value, NULL where they refuse it, or where only they know."""
    longest = max(len(one.values) for one in asked)
    padded = [pa.concat_arrays([one.values, pa.nulls(longest - len(one.values), one.values.type)]) for one in asked]
    given = pa.table({"n": range(longest)} | {f"c{at}": values for at, values in enumerate(padded)})
    answers = engine(given, [one.sql for one in asked])
    tally: Counter[str] = Counter()
    for question, found in zip(asked, answers.columns, strict=True):
        assert found.type == arrow_type(question.step.after), question.shown
        wanted = by_mirrors(question.values, question.step)
        for value, one, other in zip(
            question.values.to_pylist(), wanted, found.to_pylist()[: len(wanted)], strict=True
        ):
            refuses = isinstance(one, ReadAgainError)
            if value is not None and in_sql(pa.array([value], question.values.type), question.step).all():
                assert refuses or other is not None, (question.shown, value, one)
            assert other is None or (not refuses and other == one), (question.shown, value, one, other)
            what = "refused" if refuses else "exact" if other == one else "known to mirrors alone"
            tally[what] += 1 if value is not None else 0
    return tally


def by_duckdb(given: pa.Table, expressions: list[str]) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("given", given)
        named = ", ".join(f"{sql} AS r{at}" for at, sql in enumerate(expressions))
        return pa.table(connection.execute(f"SELECT {named} FROM given ORDER BY n").arrow())


def test_different_keys_stay_different() -> None:
    own = columns()
    for before, after in product(own, own):
        classes = tuple(value_class(parse_column_type(one.column_type).kind) for one in (before, after))
        step = TypeChange(before, after)
        if classes not in KNOWN or unknown_conversion(before, after) is not None or not stay_apart(step):
            continue
        values = values_of(before).unique().drop_null()
        told = [one for one in by_mirrors(values, step) if not isinstance(one, ReadAgainError)]
        assert len(set(told)) == len(told), step.shown


@pytest.mark.parametrize("seed", seeds())
def test_duckdb_makes_of_values_what_mirrors_make_of_them(seed: int) -> None:
    tally = judge(questions(Dialect.DUCKDB, Random(seed), 300), by_duckdb)
    assert tally["exact"] > 20 * tally["known to mirrors alone"], tally


@pytest.mark.spark
@pytest.mark.parametrize("seed", seeds())
def test_spark_makes_of_values_what_mirrors_make_of_them(spark: Any, seed: int) -> None:
    def by_spark(given: pa.Table, expressions: list[str]) -> pa.Table:
        frame = spark.createDataFrame(given)
        found = frame.orderBy("n").selectExpr(*(f"{sql} AS r{at}" for at, sql in enumerate(expressions)))
        return found.toArrow()

    tally = judge(questions(Dialect.SPARK, Random(seed), 60), by_spark)
    assert tally["exact"] > 20 * tally["known to mirrors alone"], tally
