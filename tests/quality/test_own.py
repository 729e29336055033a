"""Users' own expectations: what a file may say, and how its mistakes are told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.state import REPOSITORY
from strata_cdc.errors import SettingsError
from strata_cdc.quality.checks.own import columns_of, own_files, own_rules
from strata_cdc.quality.checks.own_file import json_schema, known_types, read_own_file
from strata_cdc.runs.verdict import Severity
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = TableName("shop", "orders")
IN_ORDER = {"type": "expect_column_max_to_be_between", "kwargs": {"column": "price", "max_value": 9}}


def write(folder: Path, content: Any, suffix: str = "json") -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"shop.orders.{suffix}").write_text(text)
    return str(folder)


def test_a_suite_of_great_expectations_is_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "name": "mine", "id": None, "meta": {"great_expectations_version": "1.24.1"}, "notes": None,
            "expectations": [
                IN_ORDER,
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
    assert second.because == "as agreed in May (shop.orders.json, line 1)"
    assert (second.severity, third.severity) == (Severity.WARNING, Severity.WARNING)
    assert [columns_of(rule) for rule in (first, second, third)] == [{"price"}, {"a", "b"}, set()]


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_yaml_has_the_values_of_json(tmp_path: Path, suffix: str) -> None:
    folder = write(
        tmp_path,
        """\
# prices that somebody has looked at
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: state, value_set: [on, no, 2026-01-01, "7", 7, 1e3, -1.5, true, ~, 12:30:45, 0x1F, +3]}
  - {type: expect_column_values_to_not_be_null, kwargs: {column: state}, notes: must be told}
""",
        suffix,
    )
    rules = own_rules(folder, ORDERS)
    assert rules[0].kwargs["value_set"] == [
        "on", "no", "2026-01-01", "7", 7, 1000.0, -1.5, True, None, "12:30:45", "0x1F", 3,
    ]  # fmt: skip
    assert rules[1].because == f"must be told (shop.orders.{suffix}, line 5)"


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=50), inner),
        max_leaves=8,
    )
)
def test_json_means_the_same_in_a_yaml_file(value: Any) -> None:
    content = json.dumps({"expectations": [{"type": IN_ORDER["type"], "kwargs": {"value": value}}]})
    as_json, as_yaml = read_own_file("a.json", content), read_own_file("a.yaml", content)
    assert as_json == as_yaml
    assert as_json[0].expectation.kwargs == {"value": value}
    assert as_json[0].line == 1


def test_a_table_without_a_file_has_none(tmp_path: Path) -> None:
    assert own_rules(str(tmp_path), ORDERS) == []
    assert own_rules(None, ORDERS) == []


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for look in (lambda folder: own_rules(folder, ORDERS), own_files):
        with pytest.raises(SettingsError, match="folder of `checks` is not there") as caught:
            look(str(tmp_path / "none"))
        assert "beside the settings file" in str(caught.value)


def test_what_would_be_passed_over_is_refused(tmp_path: Path) -> None:
    """An ending in capitals, a link whose file is gone, a folder: a run would say that the table has no checks."""
    folder = write(tmp_path, {"expectations": []}, "txt")
    assert own_files(folder) == []
    entries: dict[str, tuple[Callable[[Path], object], Callable[[Path], object], str]] = {
        "shop.orders.YML": (Path.touch, Path.unlink, "has an ending in capitals: nobody would read it"),
        "shop.orders.yaml": (
            lambda path: path.symlink_to("nowhere"),
            Path.unlink,
            "is a link to nowhere, which is not",
        ),
        "shop.orders.json": (Path.mkdir, Path.rmdir, "is no file"),
    }
    for name, (make, remove, message) in entries.items():
        make(tmp_path / name)
        for read in (own_files, lambda folder: own_rules(folder, ORDERS)):
            with pytest.raises(SettingsError, match=f"{name} {message}"):
                read(folder)
        remove(tmp_path / name)


def test_a_table_whose_name_is_too_long_for_a_file_has_none(tmp_path: Path) -> None:
    assert own_rules(str(tmp_path), TableName("数" * 64, "名" * 64)) == []


def test_two_files_of_one_table_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {"expectations": []})
    folder = write(tmp_path, "expectations: []", "yaml")
    for look in (lambda folder: own_rules(folder, ORDERS), own_files):
        with pytest.raises(SettingsError, match=r"shop.orders.json and shop.orders.yaml are of one table"):
            look(folder)


MISTAKES = """\
expectations:
  - type: expect_column_values_to_be_uniqe
    kwargs: {column: a}
  - kwargs: {column: a}
  - type: expect_column_to_exist
    kwargs: a
    severity: fatal
  - a
  - type: expect_column_to_exist
    sever_ity: info
  - type: expect_column_to_exist
    kwargs: {row_condition: a = 1}
    where: state = 'paid' OR OR total > 3
expectation: []
"""
SAID = [
    "line 2: expectations[0].type: Great Expectations has no expectation \"expect_column_values_to_be_uniqe\": do you "
    "mean expect_column_values_to_be_unique?",
    "line 4: expectations[1].type is missing: an expectation's name",
    "line 6: expectations[2].kwargs is not an object, as in",
    "line 7: expectations[2].severity is not one of critical (or error), which withholds the table, warning and info",
    "line 8: expectations[3] is not an object with a type and kwargs",
    "line 10: expectations[4].sever_ity is not a field: do you mean severity? (there are: type, kwargs,",
    "line 13: expectations[5] has a row_condition, too: one of them is enough",
    "line 13: expectations[5].where: the condition is not MySQL's SQL (line 1, column 19)",
    "line 14: expectation is not a field: do you mean expectations?",
]  # fmt: skip


def test_all_mistakes_are_told_each_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        own_rules(write(tmp_path, MISTAKES, "yaml"), ORDERS)
    first, *reported = re.split(r"\n  (?=line )", caught.value.message)
    assert first == f"the file has {len(SAID)} mistakes:"
    for found, begin in zip(reported, SAID, strict=True):
        assert found.startswith(begin)
    assert "shop.orders.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("suffix", "text", "said"),
    [
        ("json", '{\n"expectations": [\n', "line 3: this is no JSON"),
        ("json", "", "line 1: this is no JSON"),
        ("json", "[]", 'the file is not an object with a list "expectations"'),
        ("json", "{}", "expectations is missing: a list of expectations"),
        ("json", '{"expectations": [], "expectations": []}', '"expectations" is there twice'),
        (
            "json",
            '{\n\t"expectations":\n\t[\n\t\t{"type": 1}]}',
            "line 4: expectations[0].type is not an expectation's",
        ),
        ("yaml", "", "the file is not an object"),
        ("yaml", "expectations: [\n", "line 2: this is no YAML"),
        ("yaml", "a: !!python/object:os.x {}\n\t", "no YAML"),
        ("yaml", "expectations: []\n---\na: 1", "line 2: this is no YAML"),
        ("yaml", "expectations: []\nexpectations: []", 'line 2: "expectations" is there twice'),
        ("yaml", "\0", "this is no YAML"),
        ("yaml", "expectations: &a [*a]", "something is in itself"),
    ],
)
def test_a_file_without_sense_is_refused(tmp_path: Path, suffix: str, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        own_rules(write(tmp_path, text, suffix), ORDERS)
    assert said in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop.orders.json").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="no UTF-8"):
        own_rules(str(tmp_path), ORDERS)


def test_the_schema_for_editors_is_that_of_the_code() -> None:
    page = REPOSITORY / "docs" / "checks.schema.json"
    made = json.dumps(json_schema(), indent=2) + "\n"
    assert page.read_text() == made, (
        "make it anew: .venv/bin/python -c 'import json; from strata_cdc.quality.checks.own_file import json_schema; "
        f"print(json.dumps(json_schema(), indent=2))' > {page.relative_to(REPOSITORY)}"
    )


def test_the_documented_files_are_good(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "checks.md").read_text()
    found = re.findall(r"```(yaml|json)\n(.*?)```", page, re.DOTALL)
    assert {suffix for suffix, _ in found} == {"yaml", "json"}
    for suffix, text in found:
        assert read_own_file(f"a.{suffix}", text)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_names_of_expectations_are_those_of_great_expectations() -> None:
    from great_expectations.expectations.registry import list_registered_expectation_implementations  # noqa: PLC0415

    # One has a file, and was never registered.
    registered = {*list_registered_expectation_implementations(), "expect_multicolumn_values_to_be_unique"}
    assert set(known_types()) == registered
