"""What the checks find, run by Great Expectations on Spark: right rows pass, every wrong one is told."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from strata_cdc.changes.arrow import image_fields
from strata_cdc.quality.checks.one_pass import pass_over
from strata_cdc.quality.checks.pass_engine import PassEngine, task_of
from strata_cdc.quality.checks.pass_results import PassResults
from strata_cdc.quality.checks.rules import Rule, StreamFacts
from strata_cdc.quality.checks.run import judge_interval
from strata_cdc.quality.checks.spark_frames import frame_of
from strata_cdc.quality.checks.subject import JudgedFile, Suite, TableSubject
from strata_cdc.quality.checks.suite import SuiteJudge
from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from tests.quality.second_witness import SparkEngine
from tests.spark_session import spark
from tests.tables.changes import Batch, changes, definition, stage

pytestmark = [pytest.mark.spark, pytest.mark.slow]
__all__ = ["spark"]

ALL_TYPES = definition(
    {
        "id": "bigint unsigned NOT NULL",
        "small.int": "smallint unsigned NOT NULL",
        "price": "decimal(10,2)",
        "status": "enum('new','it''s') NOT NULL",
        "flags": "set('a','b (c)','d')",
        "name": "varchar(4) NOT NULL",
        "raw": "binary(2)",
        "born": "date NOT NULL",
        "made": "datetime(6)",
        "seen": "timestamp NOT NULL",
        "took": "time(3)",
        "since": "year",
        "bits": "bit(5)",
        "doc": "json",
        "place": "point",
        "_op": "varchar(9)",
    }
)
MIDNIGHT = datetime(1, 1, 1)  # noqa: DTZ001  DATETIME has no zone
RIGHT = {
    "id": Decimal(2**64 - 1), "small.int": 65535, "price": Decimal("-99999999.99"), "status": "it's",
    "flags": "a,b (c)", "name": "ünï\U0001f42c", "raw": b"\0\1", "born": date(2020, 1, 1), "made": MIDNIGHT,
    "seen": MIDNIGHT.replace(tzinfo=UTC), "took": -3020399000000, "since": 0, "bits": 31, "doc": "{}",
    "place": {"srid": 0, "wkb": b"1"}, "_op": "mine",
}  # fmt: skip
SPARSE = {**dict.fromkeys(RIGHT), **{name: RIGHT[name] for name in ("small.int", "status", "name", "born", "seen")}}


def right_rows() -> list[dict[str, Any]]:
    """Everything that a server may write."""
    first, second, third = ({**RIGHT, "id": Decimal(number)} for number in (1, 2, 3))
    return [
        {"op": "insert", "seq": 1, "after": RIGHT},
        {"op": "insert", "seq": 1, "row": 1, "after": first},
        {"op": "update", "seq": 2, "before": first, "after": second},
        {"op": "insert", "seq": 3, "after": first},
        {"op": "delete", "seq": 4, "before": second},
        {"op": "delete", "seq": 4, "row": 1, "before": first},
        {"op": "insert", "seq": 5, "after": {**SPARSE, "id": Decimal(9), "status": ""}},
        {"op": "update", "seq": 6, "before": RIGHT, "after": {**third, "flags": ""}},
    ]


def wrong_rows() -> list[dict[str, Any]]:
    """Each row after the first breaks one rule."""
    row = {"op": "insert", "after": RIGHT}

    def with_value(seq: int, **values: Any) -> dict[str, Any]:
        after = {**RIGHT, "id": Decimal(seq), **values}
        return {"op": "insert", "seq": seq, "after": after}

    return [
        {**row, "seq": 1},
        with_value(2, status="old"),
        with_value(3, flags="a,x"),
        with_value(4, name="fünf!"),
        with_value(5, raw=b"\0"),
        with_value(6, name=None),
        with_value(7, **{"small.int": 65536}),
        with_value(8, took=3020400000000),
        with_value(9, since=2156),
        with_value(10, bits=32),
        with_value(11, born=None) | {"invalid": {"born": "0000-00-00"}},
        {**with_value(12), "op": "replace"},
        {**with_value(13), "before": RIGHT},
        {"op": "delete", "seq": 14},
        with_value(15),
        with_value(15),
        with_value(99),
        # The histories of two keys: one is inserted twice, one changes without a trace.
        with_value(2, id=Decimal(1000)) | {"row": 1},
        with_value(3, id=Decimal(1000)) | {"row": 1},
        {"op": "delete", "seq": 5, "row": 1, "before": {**RIGHT, "id": Decimal(4)}},
    ]


def batch(table: str, columns: TableDefinition, rows: list[dict[str, Any]], version_id: int = 1) -> Batch:
    fields = {field.name: field.type for field in image_fields(columns)}
    return changes(fields, rows, version_id=version_id, table=TableName("shop", table))


def subject(
    folder: Path, *batches: Batch, definitions: dict[int, TableDefinition], own: tuple[Rule, ...] = (), rows: int = -1
) -> TableSubject:
    staged = stage(folder, *batches)
    files = [
        JudgedFile(
            file.url,
            file.digest,
            file.version_id,
            file.rows,
            file.partial_rows,
            file.invalid_rows,
            file.size_bytes,
            file.stats,
        )
        for file in staged
    ]
    expected = sum(file.rows for file in staged) if rows < 0 else rows
    return TableSubject(
        batches[0].table, tuple(files), StreamFacts(expected, 1, 20, tuple(definitions)), definitions, own
    )


@pytest.fixture(scope="module")
def judge() -> SuiteJudge:
    return SuiteJudge()


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[TableSubject]:
    folder = tmp_path_factory.mktemp("staged")
    old, new = definition({"id": "int NOT NULL", "x": "int"}), definition({"id": "int NOT NULL", "x": "varchar(1)"})
    own = (
        Rule("expect_column_max_to_be_between", Severity.ERROR, "own", {"column": "x", "max_value": 5}),
        Rule("expect_column_values_to_not_be_null", Severity.ERROR, "own", {"column": "gone"}),
        Rule("expect_column_values_to_be_marvellous", Severity.WARNING, "own", {"column": "id"}),
    )
    versions = (
        batch("versions", old, [{"op": "insert", "seq": 1, "after": {"id": 1, "x": 7}}], 1),
        batch("versions", new, [{"op": "insert", "seq": 2, "after": {"id": 1, "x": "12"}}], 2),
    )
    partial = [
        {"op": "insert", "seq": 1, "after": {"id": 1}, "missing": ["x"]},
        {"op": "update", "seq": 2, "before": {"id": 1}, "after": {"x": 5}, "missing": ["id", "_before.x"]},
        {"op": "update", "seq": 3, "before": {"id": 2}, "after": {"x": 5}, "missing": ["_before.x"]},
    ]
    strict = definition({"id": "int NOT NULL", "x": "int NOT NULL"})
    documents = definition({"id": "int NOT NULL", "j": "json NOT NULL"})
    diff = {"missing": ["id", "_before.j"], "invalid": {"j": '[{"op": "remove", "path": "$.a"}]'}}
    unknown = [
        {"op": "insert", "seq": 1, "after": {"id": 1, "j": "{}"}},
        {"op": "update", "seq": 2, "before": {"id": 2}, **diff},
    ]
    return [
        subject(folder, batch("right", ALL_TYPES, right_rows()), definitions={1: ALL_TYPES}),
        subject(folder, batch("wrong", ALL_TYPES, wrong_rows()), definitions={1: ALL_TYPES}, rows=30),
        subject(
            folder,
            *(batch("both", ALL_TYPES, rows) for rows in (right_rows(), wrong_rows())),
            definitions={1: ALL_TYPES},
            rows=30,
        ),
        subject(folder, *versions, definitions={1: old, 2: new, 3: new}, own=own),
        subject(folder, batch("partial", strict, partial), definitions={1: strict}),
        subject(folder, batch("documents", documents, unknown), definitions={1: documents}),
        subject(folder, batch("other", old, [{"op": "insert", "after": {"id": 1}}]), definitions={1: ALL_TYPES}),
        TableSubject(TableName("shop", "absent"), (), StreamFacts(3, 1, 20, (7,)), {7: old}),
        TableSubject(TableName("shop", "empty"), (), StreamFacts(0, 1, 20, ()), {}),
    ]


def by_spark(spark: Any, judge: SuiteJudge, subjects: list[TableSubject]) -> IntervalVerdict:
    profiles = {file.url: pass_over(task_of(one, file)).profile for one in subjects for file in one.files}
    engine = SparkEngine(judge, lambda urls: spark.read.parquet(*urls), profiles)
    return judge_interval(engine, "shop", 0, "now", subjects)


def by_pass(spark: Any, judge: SuiteJudge, subjects: list[TableSubject]) -> IntervalVerdict:
    def own(one: TableSubject, suite: Suite) -> list[Failure]:
        assert suite.version is not None
        frame = frame_of(lambda urls: spark.read.parquet(*urls), one, suite.version)
        return judge.run(f"{suite.name}, own", str(one.table), frame, suite.own)

    tasks = [task_of(one, file) for one in subjects for file in one.files]
    return judge_interval(
        PassEngine(PassResults.from_files((task, pass_over(task)) for task in tasks), own), "shop", 0, "now", subjects
    )


@pytest.fixture(scope="module")
def verdict(spark: Any, judge: SuiteJudge, subjects: list[TableSubject]) -> IntervalVerdict:
    return by_pass(spark, judge, subjects)


def failures(verdict: IntervalVerdict, table: str) -> list[Failure]:
    return [failure for failure in verdict.failures if failure.table == f"shop.{table}"]


def test_whatever_a_server_may_write_passes(verdict: IntervalVerdict) -> None:
    assert failures(verdict, "right") == []
    found = next(table for table in verdict.tables if table.table == "shop.right")
    assert (found.rows, found.versions, found.passed) == (8, (1,), True)
    assert found.checks > 20


def test_every_wrong_row_is_told(verdict: IntervalVerdict) -> None:
    found = {
        (failure.check.removeprefix("expect_").removeprefix("column_"), failure.column): failure.unexpected_rows
        for failure in failures(verdict, "wrong")
    }
    assert found == {
        ("table_row_count_to_equal", None): None,
        ("compound_columns_to_be_unique", None): 2,
        ("values_to_be_between", "_seq"): 1,
        ("values_to_be_in_set", "_op"): 1,
        ("values_to_be_in_set", "_images_agree"): 3,
        ("values_to_be_null", "_invalid"): 1,
        ("values_to_be_in_set", "status"): 1,
        ("values_to_match_regex", "flags"): 1,
        ("value_lengths_to_be_between", "name"): 1,
        ("values_to_not_be_null", "name"): 1,
        ("value_lengths_to_equal", "raw"): 1,
        ("values_to_be_between", "small@002eint"): 1,
        ("values_to_be_between", "took"): 1,
        ("values_to_be_between", "since"): 1,
        ("values_to_be_between", "bits"): 1,
        ("rows_are_in_stream_order", None): 2,
        ("unexpected_rows_expectation", None): 3,
    }


def test_a_failure_says_where(verdict: IntervalVerdict) -> None:
    (status,) = (failure for failure in failures(verdict, "wrong") if failure.column == "status")
    assert status.severity is Severity.ERROR
    assert status.message == "status: status is enum('new','it''s'); 1 row does not comply"
    (example,) = status.examples
    shown = json.loads(example)
    assert shown.pop("id") == "2"
    assert shown == {
        "_gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:2",
        "_seq": 2,
        "_row": 0,
        "status": "old",
    }
    (count,) = (failure for failure in failures(verdict, "wrong") if "row_count" in failure.check)
    assert count.message.endswith("found 20")


def test_histories_and_invalid_values_are_warnings(verdict: IntervalVerdict) -> None:
    warned = [failure for failure in failures(verdict, "wrong") if failure.severity is Severity.WARNING]
    assert {failure.check for failure in warned} == {"unexpected_rows_expectation", "expect_column_values_to_be_null"}
    (history,) = (failure for failure in warned if failure.check == "unexpected_rows_expectation")
    assert {json.loads(example)["_seq"] for example in history.examples} <= {3, 5, 13, 15}


def test_a_document_of_which_only_the_change_is_known_is_a_warning_with_its_place(verdict: IntervalVerdict) -> None:
    assert {failure.severity for failure in failures(verdict, "documents")} == {Severity.WARNING}
    (found,) = (one for one in failures(verdict, "documents") if "of j the log has only what changed" in one.message)
    assert (found.table, found.unexpected_rows) == ("shop.documents", 1)
    assert json.loads(found.examples[0])["_gtid"].endswith(":2")


def test_versions_are_judged_by_their_own_definitions(verdict: IntervalVerdict) -> None:
    found = {(failure.check, failure.column): failure for failure in failures(verdict, "versions")}
    assert ("expect_column_value_lengths_to_be_between", "x") in found
    assert ("expect_compound_columns_to_be_unique", None) not in found
    assert found["expect_column_values_to_not_be_null", "gone"].message.startswith("no version of the table")


def test_a_condition_selects_the_rows(spark: Any, judge: SuiteJudge, tmp_path: Path) -> None:
    """In MySQL's SQL, of the versions that have its columns; rows whose image lacks one are exempt."""
    old = definition({"id": "int NOT NULL", "x": "int"})
    collated = {"character_set": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}
    new = TableDefinition((*old.columns, Column("state.now", "enum('new','paid')", **collated)), old.keys)

    def is_null(where: str) -> Rule:
        return Rule("expect_column_values_to_be_null", Severity.ERROR, where, {"column": "x"}, where=where)

    own = tuple(map(is_null, ("`state.now` = 'PAID'", "id > 2 OR x IS NULL", "x = 7")))
    rows = [
        {"op": "insert", "seq": 2, "after": {"id": 2, "x": 1, "state.now": "paid"}},
        {"op": "insert", "seq": 3, "after": {"id": 3, "x": 1, "state.now": "new"}},
        {
            "op": "update",
            "seq": 4,
            "before": {"id": 2},
            "after": {"id": 2, "x": 1},
            "missing": ["state.now", "_before.x"],
        },
        {"op": "delete", "seq": 5, "before": {"id": 3, "x": 1, "state.now": "new"}},
    ]
    versions = (
        batch("where", old, [{"op": "insert", "seq": 1, "after": {"id": 1, "x": 7}}], 1),
        batch("where", new, rows, 2),
    )
    subjects = [subject(tmp_path, *versions, definitions={1: old, 2: new}, own=own)]
    found = by_pass(spark, judge, subjects)
    reported = {failure.message: failure.unexpected_rows for failure in found.failures if failure.column == "x"}
    assert {message.split("; ")[0]: rows for message, rows in reported.items()} == {
        "x: `state.now` = 'PAID'": 1,
        "x: id > 2 OR x IS NULL": 1,
        "x: x = 7": 1,
    }
    wrong = [subject(tmp_path, versions[0], definitions={1: old}, own=(is_null("y = 1"),))]
    # It costs the one table.
    (failure,) = by_pass(spark, judge, wrong).errors
    assert "no column y" in failure.message


def test_an_expectation_that_cannot_be_run_is_a_failure(verdict: IntervalVerdict) -> None:
    found = {failure.check: failure for failure in failures(verdict, "versions")}
    assert "expect_column_values_to_be_marvellous" in found
    assert "could not be run" in found["expect_column_values_to_be_marvellous"].message


def test_partial_images_are_exempt_where_they_lack_a_column(verdict: IntervalVerdict) -> None:
    (failure,) = failures(verdict, "partial")
    assert (failure.check, failure.column, failure.unexpected_rows) == ("expect_column_values_to_not_be_null", "id", 1)


def test_columns_of_another_version_are_a_failure(verdict: IntervalVerdict) -> None:
    assert [failure.check for failure in failures(verdict, "other")] == ["columns_are_those_of_the_version"]


def test_a_table_of_which_nothing_was_decoded_is_a_failure(verdict: IntervalVerdict) -> None:
    (failure,) = failures(verdict, "absent")
    assert (failure.severity, failure.unexpected_rows) == (Severity.ERROR, 3)
    assert failures(verdict, "empty") == []
    assert not verdict.passed


@pytest.mark.soak
def test_great_expectations_says_the_same(
    spark: Any, verdict: IntervalVerdict, subjects: list[TableSubject], tmp_path: Path
) -> None:
    """Of our own rules, for every type; and its pages show every suite. Right and wrong rows are in one table, because
    each takes seconds: a right row that either of them refuses would be counted."""
    judge, tables = SuiteJudge(), ("both", "partial", "documents")
    theirs = by_spark(spark, judge, [one for one in subjects if one.table.table in tables])
    for table in tables:
        ours, found = failures(verdict, table), failures(theirs, table)
        assert [replace(one, examples=()) for one in ours] == [replace(one, examples=()) for one in found]
    text = Path(judge.write_docs(str(tmp_path / "docs"))).read_text()
    assert all(f"shop.{table} now" in text for table in tables)


def test_types_of_the_frame_are_those_of_the_files(spark: Any, tmp_path: Path) -> None:
    (file,) = stage(tmp_path, batch("right", ALL_TYPES, right_rows()))
    frame = spark.read.parquet(file.url)
    found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert (found["made"], found["seen"], found["id"]) == ("timestamp_ntz", "timestamp", "decimal(20,0)")
    assert pa.types.is_struct(image_fields(ALL_TYPES)[14].type)
