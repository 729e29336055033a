"""Users' own expectations: what a file may say, and how its mistakes are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata.checks.own import columns_of, own_rules
from strata.checks.verdict import Severity
from strata.errors import SettingsError
from strata.schema.model.definition import TableName

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = TableName("shop", "orders")


def write(folder: Path, content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "shop.orders.json").write_text(text)
    return str(folder)


def test_a_suite_of_great_expectations_is_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "name": "mine",
            "expectations": [
                {"type": "expect_column_max_to_be_between", "kwargs": {"column": "price", "max_value": 9}},
                {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "a", "column_B": "b"},
                 "severity": "warning", "notes": ["as agreed", "in May"]},
                {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "..."}, "severity": "info"},
            ],
        },
    )  # fmt: skip
    first, second, third = own_rules(folder, ORDERS)
    assert (first.expectation, first.severity, first.kwargs["max_value"]) == (
        "expect_column_max_to_be_between", Severity.ERROR, 9,
    )  # fmt: skip
    assert (second.severity, second.because, third.severity) == (Severity.WARNING, "as agreed in May", Severity.WARNING)
    assert [columns_of(rule) for rule in (first, second, third)] == [{"price"}, {"a", "b"}, set()]


def test_a_table_without_a_file_has_none(tmp_path: Path) -> None:
    assert own_rules(str(tmp_path), ORDERS) == []
    assert own_rules(None, ORDERS) == []


@pytest.mark.parametrize(
    ("content", "mistakes"),
    [
        ("{", ["no JSON"]),
        ([], ['no list "expectations"']),
        ({"expectations": [{}, {"type": "x", "kwargs": 1}, {"type": "x", "severity": "fatal"}, {"type": "x"}]},
         ['expectation 1 has no "type"', 'expectation 2: "kwargs"', "expectation 3: severity is one of"]),
    ],
)  # fmt: skip
def test_all_mistakes_are_told(tmp_path: Path, content: Any, mistakes: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        own_rules(write(tmp_path, content), ORDERS)
    assert all(mistake in str(caught.value) for mistake in mistakes)
    assert "shop.orders.json" in str(caught.value)
    assert "expectation 4" not in str(caught.value)
