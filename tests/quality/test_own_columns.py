"""Users' own expectations along the versions of a table: ranges, renames, and what the history says against them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.main import run
from strata_cdc.errors import SettingsError, Usage
from strata_cdc.quality.check_step.own_at_versions import (
    TableHistory,
    read_history,
    refuse_unknown_versions,
    what_is_checked,
)
from strata_cdc.quality.checks import names
from strata_cdc.quality.checks.names import METADATA
from strata_cdc.quality.checks.own import own_rules
from strata_cdc.quality.checks.profile import FileProfile
from strata_cdc.quality.checks.rules import StreamFacts
from strata_cdc.quality.checks.run import judge_table
from strata_cdc.quality.checks.subject import JudgedFile, TableSubject, suites_of
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tables import layout
from tests.schema.streams import Stream, track

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import sqlalchemy as sa

    from strata_cdc.runs.verdict import Failure

ORDERS = TableName("d", "orders")
LIFE = (
    "CREATE DATABASE d",
    "CREATE TABLE orders (id INT PRIMARY KEY, price INT, x INT, y BIGINT, state VARCHAR(9), gone INT)",
    "ALTER TABLE orders RENAME COLUMN price TO amount, DROP gone",
    "ALTER TABLE orders RENAME COLUMN x TO y, RENAME COLUMN y TO x, RENAME COLUMN state TO status",
    "ALTER TABLE orders ADD gone BIGINT, ADD price INT",
)
V1, V2, V3, V4 = 3, 4, 5, 6
"""The versions of the table: 1 is what the stream begins with, 2 the database."""


class _Known:
    """As much of an engine as a table needs whose files nobody reads."""

    def profiles(self, subject: TableSubject) -> Any:
        return {file.url: FileProfile(file.url, columns=columns(subject, file.version_id)) for file in subject.files}

    def judge(self, subject: TableSubject, label: str, columns: Any) -> tuple[int, list[Failure]]:
        return sum(len(suite.own) for suite in suites_of(subject, label, columns)), []


def columns(subject: TableSubject, version: int) -> tuple[str, ...]:
    return (*(column.name for column in subject.definitions[version].columns), *METADATA)


@pytest.fixture
def store(tmp_path: Path) -> sa.Engine:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    track(SchemaStore(engine), Stream(), *LIFE)
    return engine


def write(folder: Path, *expectations: dict[str, Any]) -> str:
    (folder / "d.orders.json").write_text(json.dumps({"expectations": expectations}, indent=1))
    return str(folder)


def not_null(column: str, **more: Any) -> dict[str, Any]:
    return {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": column}, **more}


def subject(history: TableHistory, folder: str, versions: Sequence[int]) -> TableSubject:
    files = tuple(JudgedFile(f"/f{version}", "", version, 1, 0, 0, 1) for version in versions)
    facts = StreamFacts(1, 1, 9, tuple(versions))
    return TableSubject(ORDERS, files, facts, history.definitions, tuple(own_rules(folder, ORDERS)), past=history.past)


def asked(history: TableHistory, folder: str, versions: Sequence[int] = (V1, V2, V3, V4)) -> dict[int, Any]:
    """By version the columns of which something is asked there."""
    found = subject(history, folder, versions)
    suites = suites_of(found, "now", {version: columns(found, version) for version in versions})
    return {suite.version: suite.own for suite in suites if suite.version}


def named(rules: Sequence[Any]) -> list[str | None]:
    return [rule.column for rule in rules]


@pytest.mark.parametrize(
    ("expectation", "expected"),
    [
        (not_null("price"), ["price", "amount", "amount", "amount"]),
        (not_null("PRICE"), ["price", "amount", "amount", "amount"]),
        (not_null("amount"), ["price", "amount", "amount", "amount"]),
        (not_null("x"), ["x", "x", "y", "y"]),
        (not_null("y"), ["y", "y", "x", "x"]),
        (not_null("x", versions={"from": V3}), [None, None, "x", "x"]),
        (not_null("x", versions={"from": V2, "to": V3}), [None, "x", "y", None]),
        (not_null("gone"), ["gone", None, None, None]),
        (not_null("gone", versions={"from": V2}), [None, None, None, "gone"]),
        (not_null("price", versions={"from": V4}), [None, None, None, "price"]),
        (not_null("price", versions={"to": V1}), ["price", None, None, None]),
        (not_null("_op", versions={"from": V3, "to": V3}), [None, None, "_op", None]),
    ],
)
def test_a_rule_goes_on_with_its_column(tmp_path: Path, store: sa.Engine, expectation: Any, expected: Any) -> None:
    history = read_history(store, "s", ORDERS)
    assert [*history.definitions] == [V1, V2, V3, V4]
    found = asked(history, write(tmp_path, expectation))
    assert [(named(rules) or [None])[0] for rules in found.values()] == expected


def test_it_says_so(tmp_path: Path, store: sa.Engine) -> None:
    rule = not_null("price", owner="payments", description="all is paid", notes="since May", where="state = 'paid'")
    found = asked(read_history(store, "s", ORDERS), write(tmp_path, rule))
    assert found[V1][0].because == "all is paid; since May (owner: payments; d.orders.json, line 3)"
    assert found[V4][0].because == (
        f"{found[V1][0].because}; price is called amount in version {V4}, as the DDL says; state is called status there"
    )
    assert "`status`" in found[V4][0].condition
    assert "`state`" not in found[V4][0].condition


def test_all_columns_of_a_rule_are_followed(tmp_path: Path, store: sa.Engine) -> None:
    folder = write(
        tmp_path,
        {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "x", "column_B": "price"}},
        {"type": "expect_compound_columns_to_be_unique", "kwargs": {"column_list": ["y", "amount", "_op"]}},
        {"type": "expect_table_columns_to_match_set", "kwargs": {"column_set": "what is no list"}},
    )
    first, second, third = asked(read_history(store, "s", ORDERS), folder)[V3]
    assert (first.kwargs, second.kwargs) == (
        {"column_A": "y", "column_B": "amount"}, {"column_list": ["x", "amount", "_op"]},
    )  # fmt: skip
    assert third.kwargs == {"column_set": "what is no list"}


def test_a_column_that_is_gone_is_told_and_another_range_is_not_asked(tmp_path: Path, store: sa.Engine) -> None:
    history = read_history(store, "s", ORDERS)
    folder = write(tmp_path, not_null("gone"), not_null("price", versions={"to": V1}), not_null("nowhere"))
    verdict = judge_table(_Known(), "now", subject(history, folder, [V3, V4]))
    assert [failure.message for failure in verdict.failures] == [
        f"version {V2} has dropped the column that was called gone in version {V1}; a rule about a later one of that "
        "name says `versions` (d.orders.json, line 3)",
        "no version of the table in this interval has the columns nowhere (d.orders.json, line 18)",
    ]
    assert verdict.checks == 2 + 2


def test_columns_are_taken_by_name_where_nobody_knows_more(tmp_path: Path, store: sa.Engine) -> None:
    known = read_history(store, "s", ORDERS)
    history = TableHistory(type(known.past)(), known.definitions)
    folder = write(tmp_path, not_null("price"), not_null("x", versions={"from": V2, "to": V3}))
    assert [named(rules) for rules in asked(history, folder).values()] == [["price"], ["x"], ["x"], ["price"]]


def test_what_would_be_checked_is_shown(tmp_path: Path, store: sa.Engine, monkeypatch: Any, capsys: Any) -> None:
    (tmp_path / "checks").mkdir()
    write(tmp_path / "checks", not_null("price", owner="payments", where="state = 'paid'"), not_null("gone"))
    (tmp_path / "s.toml").write_text(
        f'lake = "lake"\n[sources.s]\nconnection = "c"\nstore = "{store.url}"\nchecks = "checks"\n'
    )
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "s.toml"))
    monkeypatch.setenv("AIRFLOW_CONN_C", "mysql://u@127.0.0.1:1/")
    assert run(["check", "--dry-run", "--table", "d.orders", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["table"], shown["newest"]) == ("d.orders", V4)
    own = shown["rules"][0]
    assert own["owner"] == "payments"
    assert own["place"] == "d.orders.json, line 3"
    assert own["versions"] == [V1, V2, V3, V4]
    assert own["called"] == {"price": {"price": [V1], "amount": [V2, V3, V4]}}
    assert {"expect_table_row_count_to_equal", "unexpected_rows_expectation"} <= {one["type"] for one in shown["rules"]}
    assert run(["check", "--dry-run", "--table", "d.orders"]) == 0
    assert "payments" in capsys.readouterr().out
    rule = not_null("price", versions={"from": V2 - 1, "to": 99}, where="stat = 'paid'")
    write(tmp_path / "checks", rule, not_null("nowhere"), not_null("id", where="stat = 'paid'"))
    assert run(["check", "--dry-run", "--table", "d.orders", "--json"]) == 2
    reported = [text for one in json.loads(capsys.readouterr().out)["rules"] for text in one.get("mistakes", ())]
    assert reported[0] == "d.orders.json, line 3: the table has no schema version 99 (there are: 3, 4, 5, 6)"
    assert reported[1].startswith(
        "d.orders.json, line 14: no version of d.orders has its columns: no version of the table"
    )
    assert reported[2].startswith("d.orders.json, line 20: no version of d.orders has its columns: ")
    assert "no column stat" in reported[2]
    assert run(["check", "--dry-run"]) == 2
    assert "no schema version 99" in " ".join(capsys.readouterr().out.split())
    assert run(["check", "--dry-run", "--table", "d.order"]) == 2
    assert "do you mean d.orders?" in capsys.readouterr().err
    assert run(["check", "--table", "d.orders", "r"]) == 2


def test_a_run_does_not_begin_with_a_version_that_there_is_not(tmp_path: Path, store: sa.Engine) -> None:
    folder = write(tmp_path, not_null("price", versions={"from": V1}))
    refuse_unknown_versions(store, "s", folder)
    write(tmp_path, not_null("price", versions={"from": 2}))
    with pytest.raises(SettingsError, match="line 3: the table has no schema version 2"):
        refuse_unknown_versions(store, "s", folder)
    with pytest.raises(Usage, match=r"no version of d\.users is known"):
        what_is_checked(store, "s", TableName("d", "users"), folder)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"owner": 7}, "line 4: expectations[0].owner is not the person to ask when the rule fails"),
        ({"owner": ""}, "line 4: expectations[0].owner is not the person to ask when the rule fails"),
        ({"versions": 7}, "line 4: expectations[0].versions is not a range of schema versions"),
        ({"versions": {"from": "3"}}, "line 4: expectations[0].versions is not a range of schema versions"),
        ({"versions": {"from": 0}}, "line 4: expectations[0].versions is not a range of schema versions"),
        ({"versions": {"since": 3}}, "line 4: expectations[0].versions is not a range of schema versions"),
        ({"versions": {}}, "line 4: expectations[0].versions has neither from nor to"),
        ({"versions": {"from": 7, "to": 6}}, "line 4: expectations[0].versions is empty: it goes from 7 to 6"),
        ({"description": 7}, "line 4: expectations[0].description is not a text"),
    ],
)
def test_mistakes_in_the_new_fields_are_told(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    text = json.dumps({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "a"}})
    field = json.dumps(given)[1:-1]
    (tmp_path / "d.orders.json").write_text('{"expectations":\n[\n' + text[:-1] + ",\n" + field + "}]}")
    with pytest.raises(SettingsError) as caught:
        own_rules(str(tmp_path), ORDERS)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["a", "_op", "__op", "_OP", "op", "_foo", "__seq", "_", ""])
def test_names_are_those_that_the_writer_gives(name: str) -> None:
    assert names.column_name(name) == layout.column_name(name)
    assert names.METADATA == layout.METADATA
