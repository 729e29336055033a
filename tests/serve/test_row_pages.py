"""The pages of rows: as they were at a moment, and one of them through time, on a source with real changes."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

import pytest

from strata_cdc.pipeline import ingest
from strata_cdc.serve.around import PageHost
from tests.quality.live_world import LiveWorld
from tests.serve.conftest import app_of, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
HOSTILE = "<script>alert('x')</script>"
MORE = 'mirrors = ["shop.*"]\nsensitive = ["shop.people.email", "shop.secrets.id"]'
BEFORE = f"""
CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(99), email VARCHAR(99));
INSERT INTO people VALUES (1, 'Ann', 'ann@hidden.example'), (2, "{HOSTILE}", NULL);
CREATE TABLE pairs (a INT, b VARCHAR(9), v INT, PRIMARY KEY (a, b));
INSERT INTO pairs VALUES (1, 'x', 5);
CREATE TABLE secrets (id INT PRIMARY KEY, v INT); INSERT INTO secrets VALUES (77, 1);
CREATE TABLE raw (id VARBINARY(4) PRIMARY KEY); INSERT INTO raw VALUES (0x00ff);
CREATE TABLE bag (v INT); INSERT INTO bag VALUES (1);
CREATE TABLE many (id INT PRIMARY KEY); INSERT INTO many SELECT a.n * 20 + b.n FROM
 (SELECT ROW_NUMBER() OVER () n FROM information_schema.columns LIMIT 20) a,
 (SELECT ROW_NUMBER() OVER () n FROM information_schema.columns LIMIT 20) b;
"""
AFTER = """
ALTER TABLE people RENAME COLUMN name TO called, ADD COLUMN born YEAR DEFAULT 2000;
UPDATE people SET called = 'Anna', email = 'anna@hidden.example' WHERE id = 1;
UPDATE pairs SET b = 'y', v = 6;
DELETE FROM people WHERE id = 2;
"""


@pytest.fixture(scope="module")
def pages(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, str]]:
    """The pages, and a time between the two halves of what happened."""
    server.run_sql(
        "SET GLOBAL binlog_rows_query_log_events = ON;"
        "DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;"
    )
    world = LiveWorld(server, tmp_path_factory.mktemp("rows"), more=MORE)
    world.sql(BEFORE)
    [between] = server.run_sql("DO SLEEP(0.05); SELECT UTC_TIMESTAMP(6)").splitlines()[1:]
    time.sleep(0.05)
    world.sql(AFTER)
    world.run()
    ingest.mirror("s", settings=world.settings)
    try:
        with client_of(app_of(lambda: world.settings)) as client:
            yield client, between
    finally:
        server.run_sql("SET GLOBAL binlog_rows_query_log_events = DEFAULT")


def text_of(answer: httpx.Response) -> str:
    """The page as a reader sees it."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", answer.text)))


def rows(pages: tuple[httpx.Client, str], table: str, status: int = 200, **more: str) -> str:
    answer = pages[0].get("/rows", params={"source": "s", "database": "shop", "table": table, **more})
    assert answer.status_code == status, answer.text
    assert "hidden.example" not in answer.text
    return text_of(answer)


def row(pages: tuple[httpx.Client, str], table: str, *key: str, status: int = 200, **more: str) -> str:
    params = [("source", "s"), ("database", "shop"), ("table", table), *(("key", one) for one in key), *more.items()]
    answer = pages[0].get("/row", params=params)
    assert answer.status_code == status, answer.text
    assert "hidden.example" not in answer.text
    assert "<script>alert" not in answer.text
    return text_of(answer)


def test_rows_of_now_and_of_then(pages: tuple[httpx.Client, str]) -> None:
    now = rows(pages, "people")
    assert "1 row" in now
    assert "history 1 'Anna' (sensitive) 2000" in now
    then = rows(pages, "people", at=pages[1])
    assert "2 rows" in then
    assert "history 1 'Ann' (sensitive)" in then
    assert HOSTILE.replace("'", "''") in then


def test_a_place_in_a_file_is_no_moment_of_rows(pages: tuple[httpx.Client, str], server: MysqlServer) -> None:
    file, offset, *_ = server.run_sql("SHOW BINARY LOG STATUS").splitlines()[1].split("\t")
    for at, link, moment in ((pages[1], "Rows as they were", True), (f"{file}:{offset}", "Rows as they are", False)):
        answer = pages[0].get("/table", params={"source": "s", "database": "shop", "table": "people", "at": at})
        assert answer.status_code == 200
        assert link in text_of(answer)
        href = unescape(re.findall(r'href="(rows[^"]*)"', answer.text)[0])
        assert ("at=" in href) == moment
        assert pages[0].get(f"/{href}").status_code == 200


def test_conditions(pages: tuple[httpx.Client, str]) -> None:
    assert "1 row," in rows(pages, "people", at=pages[1], where="name = 'ann'")
    assert "0 rows" in rows(pages, "people", where="id > 1")
    assert "The first 100 rows of more" in rows(pages, "many")
    assert "4 rows" in rows(pages, "many", where="id BETWEEN 50 AND 53")
    for where in ("email IS NULL", "EMAIL LIKE 'a%'", "`email` = 'ann@hidden.example'"):
        refused = pages[0].get("/rows", params={"source": "s", "database": "shop", "table": "people", "where": where})
        assert refused.status_code == 400
        assert "sensitive" in refused.text
    for where in (
        "1) UNION SELECT * FROM shop.secrets -- ",
        "id = (SELECT id FROM shop.secrets)",
        "no_such = 1",
        "id =",
    ):
        assert rows(pages, "people", 400, where=where)


def test_what_is_not_there(pages: tuple[httpx.Client, str]) -> None:
    assert "did not exist" in rows(pages, "people", 400, at="2001-01-01")
    assert rows(pages, "nothing", 400)
    assert rows(pages, "people", 400, at="yesterday")
    assert "nothing identifies a row" in row(pages, "bag", status=400)
    assert "No change of a row" in row(pages, "people", "99", status=404)
    assert row(pages, "people", "no number", status=400)
    assert row(pages, "people", "1", "2", status=400)
    answer = pages[0].get("/row", params={"source": "s", "database": "shop", "table": "secrets", "key": "77"})
    assert answer.status_code == 400
    assert "sensitive" in answer.text
    assert "history" not in rows(pages, "secrets").partition("Show")[2]


def test_a_row_through_time(pages: tuple[httpx.Client, str]) -> None:
    form = row(pages, "people")
    assert "id At Show" in form
    shown = row(pages, "people", "1")
    assert re.search(r"called 'Anna' \S+ \S+ UPDATE ", shown)
    assert re.search(r"born 2000 \S+ \S+ DDL ", shown)
    assert re.search(r"email \(sensitive\) \S+ \S+ UPDATE ", shown)
    assert "UPDATE people SET" not in shown, "the statement has a sensitive value"
    assert "ALTER TABLE people RENAME COLUMN name TO called" in shown
    assert shown.index("update") < shown.index("insert"), "the newest first"
    then = row(pages, "people", "1", at=pages[1])
    assert "called" not in then
    assert "gone" not in then
    assert "delete" in row(pages, "people", "2", status=200)


def test_a_row_is_offered_where_something_identifies_it(pages: tuple[httpx.Client, str]) -> None:
    for table, has_key in {"people": True, "pairs": True, "bag": False}.items():
        page = pages[0].get("/table", params={"source": "s", "database": "shop", "table": table})
        assert ("One row through time" in page.text) == has_key
        assert "Rows as they are" in page.text


def test_a_key_of_two_columns_that_was_updated(pages: tuple[httpx.Client, str]) -> None:
    shown = row(pages, "pairs", "1", "y")
    assert "UPDATE pairs SET b = 'y', v = 6" in shown
    assert "b 'x' 'y'" in shown
    assert "v 5 6" in shown


def test_what_takes_a_change_back(pages: tuple[httpx.Client, str], server: MysqlServer) -> None:
    """The text of the page is a script that the server takes, and that gives the row of before."""
    params = {"source": "s", "database": "shop", "table": "pairs"}
    shown = pages[0].get("/row", params={**params, "key": ["1", "y"]})
    link, *older = re.findall(r'href="(undo[^"]*)">what takes it back</a>', shown.text)
    shown = pages[0].get("/row", params={**params, "table": "raw", "key": "0x00ff"})
    older += re.findall(r'href="(undo[^"]*)">what takes it back</a>', shown.text)
    assert [pages[0].get("/" + unescape(each)).status_code for each in older] == [200, 200]
    answer = pages[0].get("/" + unescape(link))
    assert answer.status_code == 200, answer.text
    [script] = re.findall(r"<pre><bdi>(.*?)</bdi></pre>", answer.text, re.DOTALL)
    server.run_sql(unescape(script))
    assert server.run_sql("SELECT * FROM shop.pairs").splitlines()[1:] == ["1\tx\t5"]
    people = {**params, "table": "people", "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"}
    for wrong in (people, {**params, "gtid": "x"}, {**params, "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"}):
        assert pages[0].get("/undo", params=wrong).status_code in {400, 404}
    assert "what takes it back" not in pages[0].get("/row", params={**params, "table": "people", "key": "1"}).text


def test_the_pages_need_permission(pages: tuple[httpx.Client, str]) -> None:
    for path in ("/rows", "/row", "/undo"):
        answer = pages[0].get(
            path,
            params={"source": "s", "database": "shop", "table": "people", "gtid": "x"},
            headers={"Authorization": "Bearer x"},
        )
        assert answer.status_code in (401, 403)


def test_airflow_shows_rows_only_if_the_settings_allow_it(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop;")
    world = LiveWorld(server, tmp_path, more=MORE)
    world.sql("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(9)); INSERT INTO people VALUES (1, 'Ann');")
    world.run()
    ingest.mirror("s", settings=world.settings)
    params = {"source": "s", "database": "shop", "table": "people"}
    for allowed in (False, True):
        settings = replace(world.settings, rows_in_airflow=allowed)
        with client_of(app_of(lambda settings=settings: settings, PageHost(asks_for_rows=True))) as client:
            table = client.get("/table", params=params)
            assert ("One row through time" in table.text) == allowed
            for path in ("/rows", "/row"):
                answer = client.get(path, params={**params, "key": "1"})
                assert answer.status_code == (200 if allowed else 400)
                assert ("Ann" in answer.text) == allowed
                assert ("rows_in_airflow = true" in answer.text) != allowed
