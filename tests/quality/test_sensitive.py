"""Values of sensitive columns: in nothing that either engine says of rows that break rules, nor in the Data Docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from strata_cdc.quality.check_step.check_interval import Checking, check_interval
from strata_cdc.quality.checks.own import own_rules
from strata_cdc.quality.checks.sensitive import MASK, Sensitive
from strata_cdc.runs.run_folder import read_verdicts, run_folder
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.values import to_plain
from tests.quality.checked_run import RUN, write_run_of
from tests.spark_session import spark
from tests.tables.changes import INTERVAL, SOURCE, changes, definition

__all__ = ["spark"]

MARKER = "kaninchen"
NUMBER = 730_615_884
FIELDS = {"id": pa.int32(), "e.Mail": pa.string(), "pin": pa.int64(), "state": pa.string(), "doc": pa.string()}
COLUMNS = {
    "id": "int NOT NULL",
    "e.Mail": "varchar(4) NOT NULL",
    "pin": "int unsigned",
    "state": "enum('a','b')",
    "doc": "json",
}
SHAPE = definition(COLUMNS, key=())
KEYED = definition(COLUMNS, key=("e.Mail", "pin"))
SENSITIVE = ("E.mail", "doc", "pin")
OWN = [
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "e@002eMail", "regex": "^x"}},
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "pin", "max_value": 3}},
    {"type": "expect_column_distinct_values_to_be_in_set", "kwargs": {"column": "pin", "value_set": [1]}},
    {
        "type": "expect_column_pair_values_to_be_equal",
        "kwargs": {"column_A": "state", "column_B": "doc"},
        "severity": "warning",
    },
    {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["pin", "state"]}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "id", "max_value": 1}},
    {
        "type": "expect_column_values_to_be_between",
        "kwargs": {
            "column": "id",
            "max_value": 1,
            "row_condition": "CAST(doc AS INT) > 0",
            "condition_parser": "spark",
        },
    },
    {
        "type": "unexpected_rows_expectation",
        "kwargs": {"unexpected_rows_query": "SELECT doc AS harmless, _seq FROM {batch}"},
    },
]


def image(key: int, **values: Any) -> dict[str, Any]:
    return {"id": key, "e.Mail": MARKER, "pin": NUMBER, "state": "a", "doc": f'"{MARKER}"', **values}


def rows() -> list[dict[str, Any]]:
    """Every rule about the columns is broken: length, sign, JSON, chain, what a type cannot express, labels."""
    return [
        {"op": "insert", "seq": 1, "after": image(1)},
        {"op": "insert", "seq": 2, "after": image(2, pin=-NUMBER, state=MARKER)},
        {"op": "insert", "seq": 3, "after": image(3, doc=f"{MARKER} is no JSON"), "invalid": {"doc": MARKER}},
        {"op": "insert", "seq": 4, "after": image(4)},
        {"op": "update", "seq": 5, "before": image(4, id=9), "after": image(4, **{"e.Mail": None})},
    ]


def write_run(lake: Path, shape: TableDefinition, given: list[dict[str, Any]], sensitive: tuple[str, ...]) -> Any:
    named = {"shop.orders": sensitive} if sensitive else {}
    return write_run_of(lake, changes(FIELDS, given), len(given), shape, sensitive=named)


def said(lake: Path, folder: Any, output: Any, report: Any) -> str:
    """All that the check wrote or printed, but for the rows themselves and what Delta's log is to have of them."""
    kept = [path for path in sorted(Path(folder.url).rglob("*")) if path.is_file() and path.suffix != ".parquet"]
    texts = [path.read_text(errors="replace") for path in kept if path.name not in {"decoded.json", "plan.json"}]
    reasons = sorted((lake / "quarantine").rglob("reason.json"))
    texts += [json.dumps(json.loads(path.read_text())["verdict"]) for path in reasons]
    return "\n".join([output.out, output.err, json.dumps(to_plain(report)), *texts])


def shows(text: str) -> list[str]:
    return [value for value in (MARKER, str(NUMBER)) if value in text]


@pytest.mark.parametrize("shape", [SHAPE, KEYED], ids=["no key", "a sensitive key"])
def test_one_pass(tmp_path: Path, capfd: pytest.CaptureFixture[str], shape: TableDefinition) -> None:
    for sensitive in (SENSITIVE, ()):
        lake = tmp_path / str(len(sensitive))
        folder = write_run(lake, shape, rows(), sensitive)
        report = check_interval(str(lake), SOURCE, RUN, _no_spark)
        found = shows(said(lake, folder, capfd.readouterr(), report))
        # Labels of an enum are no secret of a row: `state` is not sensitive, and shows what is in it.
        assert (found, report.errors > 3) == ([MARKER] if sensitive else [MARKER, str(NUMBER)], True)
    hidden = read_verdicts(run_folder(str(tmp_path / "3"), SOURCE, RUN))[INTERVAL]
    for failure in hidden.failures:
        for example in map(json.loads, failure.examples):
            shown = {name: value for name, value in example.items() if value in (MARKER, NUMBER, -NUMBER)}
            assert shown in ({}, {"state": MARKER}), failure
            assert example["_seq"]


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.slow
def test_own_expectations(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "shop.orders.json").write_text(json.dumps({"expectations": OWN}))
    given = [
        row | {"after": {**row["after"], "state": "c" if row["after"]["state"] == MARKER else "a"}} for row in rows()
    ]
    folder = write_run(tmp_path, KEYED, given, SENSITIVE)
    report = check_interval(str(tmp_path), SOURCE, RUN, lambda: spark, Checking(str(own)))
    everything = said(tmp_path, folder, capfd.readouterr(), report)
    verdict = read_verdicts(folder)[INTERVAL]
    assert shows(everything + caplog.text) == []
    assert MASK in everything
    assert "NoneType" not in caplog.text, "Great Expectations makes its pages of what is left"
    own_checks = {rule.expectation for rule in own_rules(str(own), TableName("shop", "orders"))}
    found = {failure.check: failure for failure in verdict.failures}
    assert own_checks <= found.keys(), "each of them failed, or could not be run"
    assert found["expect_column_max_to_be_between"].message.endswith(f"; found {MASK}")
    between = [failure for failure in verdict.failures if failure.column == "id" and failure.unexpected_rows == 4]
    assert [json.loads(example)["id"] for example in between[0].examples] == [2, 3, 4, 4], "what is not sensitive shows"


def _no_spark() -> Any:
    raise AssertionError


def test_names_in_any_of_their_forms() -> None:
    found = Sensitive.from_names(["E.mail", "_op"])
    assert all(map(found.is_hidden, ("e.mail", "E@002eMail", "__op", "_before", "_before.x", "_invalid")))
    assert not any(map(found.is_hidden, ("mail", "_seq", "id")))
    assert not Sensitive.from_names([]).is_hidden("_before")
    assert msgspec.json.decode(msgspec.json.encode(found), type=Sensitive) == found
