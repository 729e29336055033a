"""The mutation table: decoded data that was corrupted, kind by kind, and what the checks must say of it.

Both engines judge every corruption, and must say the same. What nothing in the data can reveal is in
docs/decisions/0027-checks-in-one-pass.md.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from strata_cdc.changes.arrow import image_fields
from strata_cdc.files.storage import content_digest
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.quality.check_step.run_pass import pass_in_spark
from strata_cdc.quality.checks.one_pass import pass_over
from strata_cdc.quality.checks.pass_engine import PassEngine, task_of
from strata_cdc.quality.checks.pass_results import PassResults
from strata_cdc.quality.checks.rules import StreamFacts
from strata_cdc.quality.checks.run import judge_interval
from strata_cdc.quality.checks.subject import JudgedFile, TableSubject
from strata_cdc.quality.checks.suite import SuiteJudge
from strata_cdc.runs.verdict import Failure, Severity
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables import row_groups
from strata_cdc.tables.encodings import Encodings
from strata_cdc.tables.statistics import pack_statistics, unpack_statistics
from tests.interposed import interposed
from tests.quality.second_witness import SparkEngine
from tests.spark_session import spark
from tests.tables.changes import INTERVAL, Batch, changes, definition, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["spark"]

SHAPE = definition(
    {
        "id": "int NOT NULL", "status": "enum('new','paid','sent') NOT NULL", "flags": "set('a','b')",
        "n": "int unsigned", "price": "decimal(6,2)", "name": "varchar(8) NOT NULL", "other": "varchar(8)",
        "took": "time", "doc": "json",
    }
)  # fmt: skip
FIELDS = {field.name: field.type for field in image_fields(SHAPE)} | {"price": pa.decimal128(9, 2)}
"""Decimals that have too many digits cannot be made otherwise."""
ERROR, WARNING = Severity.ERROR, Severity.WARNING
COUNT, UNIQUE = "expect_table_row_count_to_equal", "expect_compound_columns_to_be_unique"
IN_SET, BETWEEN = "expect_column_values_to_be_in_set", "expect_column_values_to_be_between"
NOT_NULL, HISTORY = "expect_column_values_to_not_be_null", "unexpected_rows_expectation"
ORDER, BOUNDS = "rows_are_in_stream_order", "statistics_are_true"
PINNED, COLUMNS = "files_are_those_that_were_decoded", "columns_are_those_of_the_version"
KEYS = 5
"""Rows that live through the whole story."""


def image(key: int, **values: Any) -> dict[str, Any]:
    return {
        "id": key, "status": "new", "flags": "a,b", "n": key, "price": Decimal("9999.99"), "name": f"name {key}",
        "other": f"o{key}", "took": 0, "doc": '{"a": [1, null]}', **values,
    }  # fmt: skip


def story() -> list[dict[str, Any]]:
    """Five rows are inserted, changed twice, and one of them goes; each transaction changes two rows or one."""
    rows: list[dict[str, Any]] = []
    keys = range(1, KEYS + 1)
    rows += [{"op": "insert", "seq": 1 + key // 2, "row": key % 2, "after": image(key)} for key in keys]
    paid = {key: image(key, status="paid", n=key + 10) for key in keys}
    rows += [
        {"op": "update", "seq": 4 + key // 2, "row": key % 2, "before": image(key), "after": paid[key]} for key in keys
    ]
    rows += [
        {
            "op": "update",
            "seq": 7 + key // 2,
            "row": key % 2,
            "before": paid[key],
            "after": {**paid[key], "price": None},
        }
        for key in keys
    ]
    rows.append({"op": "delete", "seq": 10, "before": image(1, status="paid", n=11, price=None)})
    return [copy.deepcopy(row) for row in rows]


Rows = list[dict[str, Any]]


def after(at: int, **values: Any) -> Callable[[Rows], Rows]:
    """Other values in the after image of one row, and in whatever is left of it later: no chain is broken."""

    def corrupt(rows: Rows) -> Rows:
        rows[at]["after"] |= values
        return rows

    return corrupt


def without(*places: int) -> Callable[[Rows], Rows]:
    return lambda rows: [row for at, row in enumerate(rows) if at not in places]


def doubled(rows: Rows) -> Rows:
    return [*rows, copy.deepcopy(rows[-1])]


def swapped_in_the_file(rows: Rows) -> Rows:
    rows[1], rows[4] = rows[4], rows[1]
    return rows


def swapped_places(rows: Rows) -> Rows:
    """The rows of two transactions, each in the place of the other."""
    for name in ("before", "after"):
        rows[5][name], rows[7][name] = rows[7][name], rows[5][name]
    rows[5]["after"], rows[10]["after"] = rows[10]["after"], rows[5]["after"]
    return rows


def columns_swapped(rows: Rows) -> Rows:
    for row in rows[5:10]:
        row["after"]["name"], row["after"]["other"] = row["after"]["other"], row["after"]["name"]
    return rows


def relabelled(rows: Rows) -> Rows:
    for row in rows[5:10]:
        row["after"]["status"] = "sent"
    return rows


def shifted(rows: Rows) -> Rows:
    values = [row["after"]["n"] for row in rows[:5]]
    for row, value in zip(rows[:5], [values[-1], *values[:-1]], strict=True):
        row["after"]["n"] = value
    return rows


def before_that_was_not_left(rows: Rows) -> Rows:
    rows[6]["before"]["other"] = "changed"
    return rows


def key_again(rows: Rows) -> Rows:
    rows[4]["after"] = image(4)
    return rows


def of_version(version: int | None) -> Callable[[Rows], Rows]:
    def corrupt(rows: Rows) -> Rows:
        rows[3]["version"] = version
        return rows

    return corrupt


def operation(name: str | None) -> Callable[[Rows], Rows]:
    def corrupt(rows: Rows) -> Rows:
        rows[12]["op"] = name
        return rows

    return corrupt


def as_insert_with_before(rows: Rows) -> Rows:
    rows[0]["before"] = image(1)
    return rows


MUTATIONS: dict[str, tuple[Callable[[Rows], Rows], set[tuple[str, str | None, Severity]]]] = {
    "nothing": (lambda rows: rows, set()),
    "null": (after(14, name=None), {(NOT_NULL, "name", ERROR)}),
    "label": (after(14, status="lost"), {(IN_SET, "status", ERROR)}),
    "member": (after(14, flags="a,c"), {("expect_column_values_to_match_regex", "flags", ERROR)}),
    "unsigned": (after(14, n=-1), {(BETWEEN, "n", ERROR)}),
    "digits": (after(14, price=Decimal("20000.00")), {(BETWEEN, "price", ERROR)}),
    "long": (after(13, name="123456789"), {("expect_column_value_lengths_to_be_between", "name", ERROR)}),
    "time": (after(14, took=3020400000000), {(BETWEEN, "took", ERROR)}),
    "json": (after(14, doc="{'a': 1}"), {("expect_column_values_to_be_json_parseable", "doc", ERROR)}),
    "key null": (after(14, id=None), {(NOT_NULL, "id", ERROR)}),
    "key doubled": (key_again, {(HISTORY, None, WARNING)}),
    "row missing": (without(12), {(COUNT, None, ERROR)}),
    "row doubled": (doubled, {(COUNT, None, ERROR), (UNIQUE, None, ERROR), (ORDER, None, ERROR),
                              (HISTORY, None, WARNING)}),
    "order": (swapped_in_the_file, {(ORDER, None, ERROR)}),
    "transactions swapped": (swapped_places, {(HISTORY, None, WARNING)}),
    "transaction missing": (without(5, 6), {(COUNT, None, ERROR), (HISTORY, None, WARNING)}),
    "version": (of_version(9), {(IN_SET, "_schema_version", ERROR)}),
    "version null": (of_version(None), {(NOT_NULL, "_schema_version", ERROR)}),
    "another's version": (of_version(2), {(IN_SET, "_schema_version", ERROR)}),
    "columns swapped": (columns_swapped, {(HISTORY, None, WARNING)}),
    "relabelled": (relabelled, {(HISTORY, None, WARNING)}),
    "shifted": (shifted, {(HISTORY, None, WARNING)}),
    "before image": (before_that_was_not_left, {(HISTORY, None, WARNING)}),
    "operation": (operation("replace"), {(IN_SET, "_op", ERROR)}),
    "operation null": (operation(None), {(NOT_NULL, "_op", ERROR)}),
    "sides": (as_insert_with_before, {(IN_SET, "_images_agree", ERROR)}),
}  # fmt: skip
"""Kind -> the corruption, and what is found: check, column, severity."""


def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the declared type of `price`, whatever digits are in it."""
    kind = pa.decimal128(6, 2)

    def renamed(column: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(kind, len(column), column.buffers())

    price, before = batch.schema.get_field_index("price"), batch.schema.get_field_index("_before")
    images = batch.column(before)
    parts = [renamed(part) if part.type == FIELDS["price"] else part for part in images.flatten()]
    fields = [field.with_type(part.type) for field, part in zip(images.type, parts, strict=True)]
    batch = batch.set_column(price, "price", renamed(batch.column(price)))
    return batch.set_column(before, "_before", pa.StructArray.from_arrays(parts, fields=fields, mask=images.is_null()))


def change(rows: Rows, table: TableName) -> Batch:
    made = changes(FIELDS, rows, table=table)
    return dataclasses.replace(made, batch=narrow(made.batch))


def judged(folder: Path, name: str, rows: Rows, parts: int = 1) -> TableSubject:
    """A table whose rows are in one file, or in several behind each other."""
    table = TableName("shop", name.replace(" ", "_").replace("'", ""))
    size = -(-len(rows) // parts)
    staged = [
        file
        for at in range(0, len(rows), size)
        for file in stage(folder, change(rows[at : at + size], table), slice_key=f"{name} {at}")
    ]
    files = tuple(
        JudgedFile(one.url, one.digest, one.version_id, one.rows, one.partial_rows, one.invalid_rows, one.size_bytes,
                   one.stats)
        for one in staged
    )  # fmt: skip
    return TableSubject(table, files, StreamFacts(len(story()), 1, 10, (1, 2)), {1: SHAPE, 2: SHAPE})


def mutated(folder: Path, name: str, parts: int = 1) -> TableSubject:
    return judged(folder, f"{name} {parts}", MUTATIONS[name][0](story()), parts)


def passed(subjects: Sequence[TableSubject]) -> PassResults:
    tasks = [task_of(one, file) for one in subjects for file in one.files]
    return PassResults.from_files((task, pass_over(task)) for task in tasks)


def by_pass(*subjects: TableSubject) -> list[Failure]:
    return list(judge_interval(PassEngine(passed(subjects), lambda *_: []), "shop", INTERVAL, "now", subjects).failures)


def named(failures: list[Failure]) -> set[tuple[str, str | None, Severity]]:
    return {(failure.check, failure.column, failure.severity) for failure in failures}


def texts_apart(choose: Callable[[pa.Table], Encodings], rows: pa.Table) -> Encodings:
    """All texts are written apart from their lengths, as those of large tables mostly are."""
    chosen = choose(rows)
    texts = [field.name for field in rows.schema if field.type in (pa.string(), pa.binary()) and field.name[0] != "_"]
    dictionary = [path for path in chosen.dictionary if path not in texts]
    return Encodings(dictionary, {**chosen.others, **dict.fromkeys(texts, "DELTA_LENGTH_BYTE_ARRAY")})


def written(*, apart: bool) -> AbstractContextManager[None]:
    """Within the block, files are written with all texts apart, or as usual."""
    return interposed(texts_apart, (row_groups, "choose_encodings")) if apart else nullcontext()


@pytest.mark.parametrize("texts", ["plain", "apart"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", MUTATIONS)
def test_each_corruption_is_named(tmp_path: Path, name: str, parts: int, texts: str) -> None:
    with written(apart=texts == "apart"):
        found = by_pass(mutated(tmp_path, name, parts))
    expected = MUTATIONS[name][1]
    if parts > 1 and name in {"order", "row doubled"}:
        # What goes wrong from one file to the next is no order within a file.
        expected = expected - {(ORDER, None, ERROR)}
        assert named(found) - {(ORDER, None, ERROR)} == expected
    else:
        assert named(found) == expected


def rows_of(failure: Failure) -> list[tuple[int, int]]:
    return sorted((place["_seq"], place["_row"]) for place in map(json.loads, failure.examples))


GROUPS: tuple[tuple[str, ...], ...] = (
    ("null", "label", "member", "unsigned", "digits", "long", "time", "json", "key null", "version null",
     "operation null", "transaction missing"),
    ("version", "key doubled", "before image", "row doubled"),
    ("sides", "another's version", "order", "operation", "transactions swapped"),
    ("columns swapped", "relabelled", "shifted", "row missing"),
)  # fmt: skip
"""Corruptions that fit into one table: Great Expectations takes seconds for each. Each table has right rows, too."""


def test_every_corruption_is_judged_by_both() -> None:
    assert sorted(name for group in GROUPS for name in group) == sorted(MUTATIONS.keys() - {"nothing"})


def grouped(folder: Path, most_parts: int = 3) -> list[TableSubject]:
    """All corruptions in few tables, all but one of which have several files."""
    subjects = []
    for number, group in enumerate(GROUPS):
        rows = story()
        for name in group:
            rows = MUTATIONS[name][0](rows)
        with written(apart=number >= len(GROUPS) // 2):
            subjects.append(judged(folder, f"t{number}", rows, parts=1 if number == 1 else most_parts))
    return subjects


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
def test_great_expectations_says_the_same(spark: Any, tmp_path: Path) -> None:
    subjects = grouped(tmp_path)
    profiles = {file.url: pass_over(task_of(one, file)).profile for one in subjects for file in one.files}
    engine = SparkEngine(SuiteJudge(), lambda urls: spark.read.parquet(*urls), profiles)
    theirs = judge_interval(engine, "shop", INTERVAL, "now", subjects)
    ours = judge_interval(PassEngine(passed(subjects), lambda *_: []), "shop", INTERVAL, "now", subjects)
    assert [table.checks for table in ours.tables] == [table.checks for table in theirs.tables]
    assert len(ours.failures) == len(theirs.failures) > len(GROUPS)
    for mine, his in zip(ours.failures, theirs.failures, strict=True):
        assert replace(mine, examples=()) == replace(his, examples=())
        if (mine.unexpected_rows or 4) <= 3:
            assert rows_of(mine) == rows_of(his), mine


@pytest.mark.spark
def test_spark_says_what_threads_say(spark: Any, tmp_path: Path) -> None:
    subjects = grouped(tmp_path, 4)
    tasks = [task_of(one, file) for one in subjects for file in one.files]
    found = pass_in_spark(tasks, spark, CheckProgress())
    engine = PassEngine(found, lambda *_: [])
    theirs = judge_interval(engine, "shop", INTERVAL, "now", subjects)
    assert list(theirs.failures) == by_pass(*subjects)
    assert found.between


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    clean, other = judged(tmp_path, "clean", story()), judged(tmp_path, "clean", story()[:-1])
    path = Path(clean.files[0].url)
    content = path.read_bytes()
    for damage in (content[:-20], Path(other.files[0].url).read_bytes(), content[:-1] + b"x"):
        path.write_bytes(damage)
        assert named(by_pass(clean)) == {(PINNED, None, ERROR)}
    path.unlink()
    assert named(by_pass(clean)) == {(PINNED, None, ERROR)}


@pytest.mark.parametrize("cut", [0, 4, 100, -9])
def test_a_file_that_was_written_torn_is_named(tmp_path: Path, cut: int) -> None:
    clean = judged(tmp_path, "clean", story())
    assert named(by_pass(rewritten(clean, Path(clean.files[0].url).read_bytes()[:cut]))) == {(PINNED, None, ERROR)}


def test_columns_of_another_table_are_named(tmp_path: Path) -> None:
    clean = judged(tmp_path, "clean", story())
    other = replace(clean, definitions={1: definition({"id": "int NOT NULL"})})
    assert named(by_pass(other)) == {(COLUMNS, None, ERROR)}


def rewritten(subject: TableSubject, content: bytes, **changed: Any) -> TableSubject:
    """With a file that was like this from the beginning: its digest says nothing."""
    file = subject.files[0]
    Path(file.url).write_bytes(content)
    new = replace(file, digest=content_digest(content), size_bytes=len(content), **changed)
    return replace(subject, files=(new,))


def test_bounds_in_the_footer_that_lie_are_named(tmp_path: Path) -> None:
    clean = judged(tmp_path, "clean", story())
    table = pq.read_table(clean.files[0].url, partitioning=None)

    def written(name: str, first: int) -> bytes:
        changed = table.set_column(table.schema.get_field_index("n"), "n", [[first, *table["n"].to_pylist()[1:]]]).cast(
            table.schema
        )
        path = tmp_path / name
        pq.write_table(changed, path, compression="none", use_dictionary=False, write_statistics=True)
        return path.read_bytes()

    true, other = written("true", 1), written("other", 500)
    assert len(true) == len(other)
    footer = len(true) - int.from_bytes(true[-8:-4], "little") - 8
    assert named(by_pass(rewritten(clean, true, stats=b""))) == set()
    found = by_pass(rewritten(clean, other[:footer] + true[footer:], stats=b""))
    assert (BOUNDS, None, ERROR) in named(found)
    assert "n has values outside of the bounds in its footer" in next(f.message for f in found if f.check == BOUNDS)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("minValues", "n", 2), ("maxValues", "_seq", 9), ("nullCount", "n", 3), ("numRecords", None, 15)],
)
def test_statistics_for_readers_that_lie_are_named(tmp_path: Path, part: str, name: str | None, value: int) -> None:
    clean = judged(tmp_path, "clean", story())
    stats = json.loads(unpack_statistics(clean.files[0].stats, ""))
    if name is None:
        stats[part] = value
    else:
        stats[part][name] = value
    lying = replace(clean, files=(replace(clean.files[0], stats=pack_statistics(stats)),))
    assert named(by_pass(lying)) == {(BOUNDS, None, ERROR)}
