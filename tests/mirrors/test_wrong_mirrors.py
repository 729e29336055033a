"""Mirrors whose rows are not their table's, or that meet an error of their own: told, read again; no other waits."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

import strata_cdc.mirrors.follow.follow_steps
import strata_cdc.mirrors.follow.published_rows
from strata_cdc.cli.main import run
from strata_cdc.errors import BadData, Usage
from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from tests.interposed import interposed
from tests.mirrors.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
OFF = "mirror_read_again = false"


@pytest.fixture
def shop(server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    return Shop(server, tmp_path, monkeypatch)


def make(shop: Shop, names: Sequence[str]) -> None:
    rows = "(1, 1), (2, 2), (3, 3)"
    for name in names:
        shop.server.run_sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT); INSERT INTO {name} VALUES {rows}", "shop"
        )


def change(shop: Shop, names: Sequence[str]) -> None:
    shop.server.run_sql("; ".join(f"UPDATE {name} SET n = n + 1 WHERE id = 2" for name in names), "shop")


def append(mirror: Mirror) -> None:
    write_deltalake(mirror.url, mirror.to_arrow().slice(0, 1), mode="append")


def delete(mirror: Mirror) -> None:
    DeltaTable(mirror.url).delete("id = 2")


def overwrite(mirror: Mirror) -> None:
    write_deltalake(mirror.url, mirror.to_arrow().slice(0, 1), mode="overwrite")


def lose_a_row(mirror: Mirror) -> None:
    """As by a fault of our own: no other program has been there."""
    mirror.commit([file.removed(now_ms()) for file in mirror.snapshot.files.values()], mirror.position, operation="X")


def damage_a_file(mirror: Mirror) -> None:
    for path in mirror.snapshot.files:
        Path(mirror.url, path).write_bytes(b"PAR1 is not all of it")


def delete_a_file(mirror: Mirror) -> None:
    for path in mirror.snapshot.files:
        Path(mirror.url, path).unlink()


HARM = {
    "appended": append,
    "deleted": delete,
    "overwritten": overwrite,
    "lost": lose_a_row,
    "damaged": damage_a_file,
    "gone": delete_a_file,
}
WRONG = tuple(HARM)
RIGHT = ("a", "z")
TABLES = (*WRONG, *RIGHT)


def harmed(shop: Shop) -> None:
    """Tables of which each has a mirror that is wrong in its way, and two that are right."""
    make(shop, TABLES)
    assert run(["run"]) == 0
    for name, harm in HARM.items():
        harm(shop.mirror(name))
    change(shop, TABLES)


def test_wrong_mirrors_are_told_and_read_again(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.set(OFF)
    harmed(shop)
    for _ in range(2):
        capsys.readouterr()
        assert run(["run"]) == 1
        said = capsys.readouterr().err
        assert f"{len(WRONG) - 1} other mirrors" in said
        assert "strata dump --source shop" in said
        shop.assert_equal(*RIGHT)
        assert {one["table_name"] for one in shop.waiting(capsys)} == set(WRONG)
        listed = shop.listed(capsys)
        assert {name for name, one in listed.items() if one["stopped"] is not None} == set(WRONG)
        assert run(["mirror", "keep"]) in {0, 1}
    assert run(["mirror", "update"]) == 1
    # What is left to the others: a run that may read again does.
    shop.set()
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)
    assert shop.waiting(capsys) == []
    change(shop, TABLES)
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)


def test_a_dump_by_hand_reads_wrong_mirrors_again(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """What another program did is seen before any run has told of it; a lost row, once a change does not fit."""
    shop.set(OFF)
    harmed(shop)
    seen = WRONG[:3]
    capsys.readouterr()
    assert run(["dump"]) == 0
    said = capsys.readouterr().out
    assert {name: f"shop.{name} " in said for name in TABLES} == {name: name in seen for name in TABLES}
    assert run(["run"]) == 1
    assert run(["dump"]) == 0
    assert run(["run"]) == 0
    shop.assert_equal(*TABLES)
    assert shop.waiting(capsys) == []


def test_tables_that_begin_anew_have_mirrors_anew(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.set(OFF)
    harmed(shop)
    assert run(["run"]) == 1
    for at, name in enumerate(WRONG):
        begin = f"DROP TABLE {name}; CREATE TABLE {name} (id INT PRIMARY KEY)" if at % 2 else f"TRUNCATE TABLE {name}"
        shop.server.run_sql(f"{begin}; INSERT INTO {name} (id) VALUES (7)", "shop")
    for _ in range(2):
        assert run(["run"]) == 0
        shop.assert_equal(*TABLES)
        assert shop.waiting(capsys) == []


def test_rows_of_a_wrong_mirror_go_nowhere(shop: Shop) -> None:
    """A table that gets its name has to be read, too, also where it was renamed before a run saw what is wrong."""
    shop.set(OFF)
    make(shop, ("a", "t"))
    assert run(["run"]) == 0
    append(shop.mirror("t"))
    shop.server.run_sql("RENAME TABLE t TO u; UPDATE u SET n = 7", "shop")
    assert run(["run"]) == 0
    assert shop.mirror("t").is_dropped
    assert run(["dump"]) == 0
    assert run(["run"]) == 0
    shop.assert_equal("a", "u")


def test_a_log_that_cannot_be_read_is_told_and_holds_nobody(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    make(shop, ("a", "t"))
    assert run(["run"]) == 0
    mirror = shop.mirror("t")
    max(Path(mirror.url, "_delta_log").glob("*.json")).write_bytes(b"{")
    change(shop, ("a", "t"))
    capsys.readouterr()
    assert run(["run"]) == 1
    said = capsys.readouterr().err
    assert "shop.t" in said
    assert "move the mirror's folder away" in said
    shop.assert_equal("a")
    assert shop.listed(capsys)["t"]["error"]
    assert run(["mirror", "list"]) == 0
    assert "cannot be opened" in " ".join(capsys.readouterr().out.split())
    assert [one["table_name"] for one in shop.waiting(capsys)] == ["t"]
    shutil.move(mirror.url, shop.folder / "away")
    assert run(["run"]) == 0
    shop.assert_equal("a", "t")
    assert shop.waiting(capsys) == []


def test_whatever_one_mirror_raises_the_others_go_on(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors of every kind at every place that one table's step comes by, each in a mirror of its own."""
    places: dict[str, tuple[Any, str]] = {
        "opened": (Mirror, "open"),
        "read": (strata_cdc.mirrors.follow.published_rows, "PublishedChanges"),
        "applied": (Applier, "apply"),
        "altered": (strata_cdc.mirrors.follow.follow_steps, "altered"),
        "committed": (Mirror, "commit"),
    }
    errors = (KeyError("_before"), Usage("it has no meaning"), BadData("it is not whole"), ZeroDivisionError())
    # Two kinds at each place.
    wrong = {
        f"{place}{at}": (place, errors[(number + at) % len(errors)])
        for number, place in enumerate(places)
        for at in range(2)
    }
    make(shop, (*wrong, *RIGHT))
    shop.set(OFF)
    assert run(["run"]) == 0
    change(shop, (*wrong, *RIGHT))
    for name in (*wrong, *RIGHT):
        shop.server.run_sql(f"ALTER TABLE {name} ADD COLUMN x INT", "shop")
    with ExitStack() as stack:
        for place, where in places.items():
            stack.enter_context(interposed(partial(failing, place, wrong), where))
        capsys.readouterr()
        assert run(["run"]) == 1
    assert f"{len(wrong) - 1} other mirrors" in capsys.readouterr().err
    assert {one["table_name"] for one in shop.waiting(capsys)} == set(wrong)
    shop.assert_equal(*RIGHT)
    # They were errors of the moment: where nothing is wrong with the rows, the next run goes on.
    assert run(["run"]) == 0
    shop.assert_equal(*wrong, *RIGHT)
    assert shop.waiting(capsys) == []


def failing(place: str, wrong: Mapping[str, tuple[str, Exception]], call: Any, *given: Any, **named: Any) -> Any:
    """Fails for the tables that are to fail there."""
    about = [
        *given,
        *(getattr(one, "table", None) for one in (*given, *(getattr(two, "mirror", 0) for two in given))),
    ]
    for table in (one for one in about if isinstance(one, TableName)):
        at, error = wrong.get(table.table, ("", None))
        if at == place and error is not None:
            raise error
    return call(*given, **named)


def test_a_mirror_that_an_older_version_made_without_rows(server: MysqlServer, shop: Shop) -> None:
    """Of a table that is older than the stream, behind an ALTER TABLE that keeps its rows."""
    make(shop, ("a", "t"))
    server.run_sql("RESET BINARY LOGS AND GTIDS", "shop")
    shop.set(OFF, mirrors="none.*")
    assert run(["run"]) == 0
    server.run_sql("ALTER TABLE t ADD INDEX (n); INSERT INTO a VALUES (9, 9)", "shop")
    assert run(["run"]) == 0
    shop.set(OFF)
    assert run(["dump", "--table", "shop.t"]) == 0
    right = shop.mirror("t")
    shutil.rmtree(right.url)
    seq = right.position.seq - 1
    made = Mirror.create(
        str(shop.folder / "lake"), "shop", right.table, right.definition, [],
        right.position.__class__(seq, right.position.gtid_executed, 1, right.position.schema_version),
    )  # fmt: skip
    [log] = Path(made.url, "_delta_log").glob("*.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("metaData", {}).get("configuration", {}).pop("strata.rows_from", None)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(["mirror", "update"]) == 1
    assert "without that table's rows" in (shop.mirror("t").stopped or "")
    shop.set()
    assert run(["run"]) == 0
    shop.assert_equal("a", "t")


def test_the_list_tells_which_mirrors_the_settings_let_not_follow(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that was renamed out of `tables`, and one that `mirrors` names no more; a name of two lines is one."""
    shop.set(tables="shop.[a-n]*")
    make(shop, ("a", "`line\nbreak`", "k"))
    assert run(["run"]) == 0
    shop.server.run_sql("RENAME TABLE a TO z", "shop")
    shop.set(tables="shop.[a-n]*", mirrors="shop.[!k]*")
    assert run(["run"]) == 0
    capsys.readouterr()
    assert run(["mirror", "list"]) == 0
    states = [(line.split()[0], line) for line in capsys.readouterr().out.splitlines()[1:]]
    assert [name for name, _ in states] == ["shop.a", "shop.k", "shop.line\\nbreak", "shop.z"]
    by_name = dict(states)
    assert by_name["shop.a"].rstrip().endswith("dropped")
    assert "does not follow: `mirrors` in the settings does not name it" in by_name["shop.k"]
    assert by_name["shop.line\\nbreak"].rstrip().endswith("follows")
    assert "does not follow: the settings do not name the table: its changes are not published" in by_name["shop.z"]
