"""Verdicts as stored values."""

from __future__ import annotations

import msgspec
import pytest

from strata_cdc.runs.verdict import Failure, IntervalVerdict, Severity, TableVerdict, staged_digest
from strata_cdc.values import to_plain

ERROR = Failure(
    "shop.orders", "expect_column_values_to_not_be_null", "id", Severity.ERROR, "id is NULL", 2, ('{"a":1}',)
)
WARNING = Failure("shop.orders", "expect_column_values_to_be_null", "_invalid", Severity.WARNING, "zero dates", 1)
HOLE = Failure("", "no_transaction_is_missing", None, Severity.ERROR, "3 GTIDs are missing")


def verdict(*failures: Failure, stream: tuple[Failure, ...] = ()) -> IntervalVerdict:
    return IntervalVerdict("shop", 5, "d", (TableVerdict("shop.orders", 10, (1, 2), 20, failures),), stream)


def test_only_errors_stand_against_publishing() -> None:
    assert verdict().passed
    assert verdict(WARNING).passed
    assert not verdict(WARNING, ERROR).passed
    assert not verdict(stream=(HOLE,)).passed
    assert verdict(WARNING, ERROR, stream=(HOLE,)).errors == (HOLE, ERROR)
    assert verdict(WARNING).tables[0].warnings == 1


def test_a_stored_verdict_comes_back() -> None:
    given = verdict(WARNING, ERROR, stream=(HOLE,))
    assert msgspec.json.decode(msgspec.json.encode(given), type=IntervalVerdict) == given


@pytest.mark.parametrize("found", [(), (ERROR,)])
def test_the_stored_form_says_whether_it_passed_and_is_not_believed(found: tuple[Failure, ...]) -> None:
    stored = to_plain(verdict(*found))
    assert stored["passed"] is (not found)
    lie = {**stored, "passed": not stored["passed"]}
    assert msgspec.convert(lie, IntervalVerdict) == verdict(*found)


def test_a_failure_of_the_stream_stands_against_every_table_and_that_of_a_table_against_it_alone() -> None:
    assert verdict(WARNING, ERROR).failures_of("shop.orders") == (ERROR,)
    assert verdict(ERROR).failures_of("shop.other") == ()
    assert verdict(stream=(HOLE,)).failures_of("shop.other") == (HOLE,)


def test_files_are_told_apart_by_table_and_name_in_any_order() -> None:
    files = [("a.b", "x"), ("a.b", "y"), ("a.c", "x")]
    assert staged_digest(files) == staged_digest(reversed(files))
    assert len({staged_digest(files), staged_digest(files[:2]), staged_digest([*files[:2], ("a.d", "x")])}) == 3
