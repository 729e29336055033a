"""Rules compiled from definitions: what each column type expects, and what is exempt."""

from __future__ import annotations

import re
from typing import Any

import pytest

from strata_cdc.quality.checks import subject
from strata_cdc.quality.checks.rules import (
    Exemptions,
    Rule,
    StreamFacts,
    history_rule,
    rules_of_definition,
    rules_of_stream,
)
from strata_cdc.runs.verdict import Severity
from strata_cdc.tables import layout
from tests.tables.changes import definition

NOTHING = Exemptions(0, 0)


def rules(column_type: str, exempt: Exemptions = NOTHING) -> list[Rule]:
    return rules_of_definition(definition({"c": column_type}, key=()), {"c": "c"}, exempt)


def only(column_type: str) -> tuple[str, dict[str, Any]]:
    (rule,) = rules(column_type)
    kwargs = dict(rule.kwargs)
    assert kwargs.pop("column") == "c"
    assert (rule.severity, rule.condition) == (Severity.ERROR, "_op != 'delete'")
    return rule.expectation, kwargs


@pytest.mark.parametrize(
    ("column_type", "low", "high"),
    [
        ("tinyint unsigned", 0, 255),
        ("smallint unsigned", 0, 65535),
        ("mediumint", -8388608, 8388607),
        ("mediumint unsigned", 0, 16777215),
        ("int unsigned", 0, 4294967295),
        ("int(10) unsigned zerofill", 0, 4294967295),
        ("bigint unsigned", 0, 18446744073709551615),
        ("year", 0, 2155),
        ("bit(3)", 0, 7),
        ("bit(64)", 0, 2**64 - 1),
        ("time(6)", -3020399999999, 3020399999999),
        ("double unsigned", 0, None),
    ],
)
def test_bounds_of_numbers(column_type: str, low: int, high: int | None) -> None:
    assert only(column_type) == ("expect_column_values_to_be_between", {"min_value": low, "max_value": high})


@pytest.mark.parametrize(
    "column_type",
    ["tinyint(1)", "smallint", "int", "bigint", "decimal(65,2) unsigned", "float", "bit(1)", "date",
     "datetime(6)", "timestamp", "text", "longblob", "geometry", "vector(3)"],
)  # fmt: skip
def test_types_that_their_column_cannot_leave_expect_nothing(column_type: str) -> None:
    assert rules(column_type) == []


def test_decimals_have_no_more_digits_than_declared() -> None:
    between = "expect_column_values_to_be_between"
    bounds = {"max_value": 10**8, "strict_max": True}
    assert only("decimal(10,2)") == (between, {"min_value": -(10**8), "strict_min": True, **bounds})
    assert only("decimal(10,2) unsigned") == (between, {"min_value": 0, "strict_min": False, **bounds})
    assert only("decimal(38)")[1]["max_value"] == 10**38


def test_documents() -> None:
    assert only("json") == ("expect_column_values_to_be_json_parseable", {})


def test_lengths() -> None:
    between = "expect_column_value_lengths_to_be_between"
    assert only("varchar(20)") == (between, {"max_value": 20})
    assert only("char(0)") == (between, {"max_value": 0})
    assert only("char(1)") == (between, {"max_value": 1})
    assert only("varbinary(7)") == (between, {"max_value": 7})
    assert only("binary(16)") == ("expect_column_value_lengths_to_equal", {"value": 16})


def test_labels() -> None:
    assert only("enum('a','it''s')") == ("expect_column_values_to_be_in_set", {"value_set": ["a", "it's", ""]})
    name, kwargs = only("set('a','b.c','(')")
    assert name == "expect_column_values_to_match_regex"
    for text, fits in {"": True, "a": True, "a,(": True, "b.c": True, "bxc": False, "a,": False, "a\n": False}.items():
        assert bool(re.search(kwargs["regex"].replace(r"\z", r"\Z"), text)) is fits, text


def test_an_enum_of_thousands_of_labels_is_not_listed() -> None:
    labels = ",".join(f"'{number}'" for number in range(2001))
    assert rules(f"enum({labels})") == []


def test_not_null_exempts_what_the_image_lacks_and_what_the_column_cannot_express() -> None:
    (rule,) = rules("date NOT NULL")
    assert (rule.expectation, rule.condition) == ("expect_column_values_to_not_be_null", "_op != 'delete'")
    (rule,) = rules("date NOT NULL", Exemptions(1, 1))
    assert rule.condition == (
        "_op != 'delete' AND (_missing IS NULL OR NOT array_contains(_missing, 'c'))"
        " AND (_invalid IS NULL OR NOT map_contains_key(_invalid, 'c'))"
    )


def test_changes_of_unknown_documents_are_a_warning() -> None:
    assert len(rules("json")) == 1
    (rule, _) = rules("json", Exemptions(1, 1))
    assert (rule.severity, rule.column) == (Severity.WARNING, "_invalid")
    assert rule.condition == "map_contains_key(_invalid, 'c')"


def test_names_are_quoted_in_conditions() -> None:
    table = definition({"it's \\ it": "int NOT NULL"}, key=())
    (rule,) = rules_of_definition(table, {"it's \\ it": "it's \\ it"}, Exemptions(1, 0))
    assert r"'it\'s \\ it'" in (rule.condition or "")


def test_columns_are_named_as_the_frame_names_them() -> None:
    table = definition({"_op": "int NOT NULL", "a.b": "int NOT NULL"}, key=())
    found = rules_of_definition(table, {"_op": "__op", "a.b": "a.b"}, NOTHING)
    assert [rule.column for rule in found] == ["__op", "a@002eb"]


def test_the_stream_has_its_rules() -> None:
    found = rules_of_stream(StreamFacts(rows=5, first_seq=3, last_seq=9, versions=(1, 2)))
    by_column = {(rule.expectation, rule.column): rule for rule in found}
    assert by_column["expect_table_row_count_to_equal", None].kwargs == {"value": 5}
    between = by_column["expect_column_values_to_be_between", "_seq"]
    assert (between.kwargs["min_value"], between.kwargs["max_value"]) == (3, 9)
    assert by_column["expect_column_values_to_be_in_set", "_schema_version"].kwargs["value_set"] == [1, 2]
    warnings = [rule.column for rule in found if rule.severity is Severity.WARNING]
    assert warnings == ["_invalid"]


def test_what_the_checks_expect_of_a_file_is_what_readers_get() -> None:
    assert layout.METADATA == subject.METADATA


def test_histories_are_told_apart_by_all_columns_of_the_key() -> None:
    table = definition({"a": "int", "b{c}": "int", "d": "int"}, key=("b{c}", "a"))
    rule = history_rule(table, {name: name for name in ("a", "b{c}", "d")})
    query = rule.kwargs["unexpected_rows_query"].format(batch="t")
    assert rule.severity is Severity.WARNING
    assert "_before.`a` AS k0, _before.`b{c}` AS k1" in query
    assert "PARTITION BY k0, k1 ORDER BY _seq, _row, side" in query
