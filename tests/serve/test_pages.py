"""The pages over HTTP: what they say, whom they refuse, and that names are text whatever is in them."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from strata.cli.main import run
from strata.serve.run_page import Planned
from strata.store.ledgers import ClosedInterval, IntervalLedger
from strata.store.table_intervals import State, TableInterval
from tests.schema.streams import SECOND, A, Stream, track
from tests.serve.conftest import TOKEN, app_of, client_of, settings_of

HOSTILE = '<script>alert("x")</script>'
START = 1_700_000_000 * SECOND
RUN = "20231114T221320Z-20231114T221345Z-s-rows-0f1e2d3c4b"
STATEMENTS = (
    "CREATE DATABASE d",
    "CREATE TABLE customers (id INT PRIMARY KEY, email VARCHAR(100), status ENUM('new','old'))",
    "ALTER TABLE customers ADD COLUMN phone VARCHAR(20) AFTER email",
    "ALTER TABLE customers RENAME COLUMN email TO mail, RENAME COLUMN phone TO email",
    "ALTER TABLE customers DROP COLUMN email",
    "ALTER TABLE customers ADD COLUMN email TEXT",
    "RENAME TABLE customers TO clients",
    f"CREATE TABLE `{HOSTILE}` (`\u202egnp.` INT COMMENT '{HOSTILE}', `{chr(0x1F600) * 60}` ENUM('a\"b','<b>'))",
    "CREATE TABLE gone (id INT)",
    "DROP TABLE gone",
    "CREATE TABLE lost (id INT)",
    "ALTER TABLE lost FROBNICATE THE COLUMNS",
)


@pytest.fixture(scope="module")
def history(store):
    """The store with a history, and an interval whose rows failed."""
    track(store, Stream(), *STATEMENTS)
    pieces = [
        TableInterval("s", START, "d", "clients", 120, State.PUBLISHED, published_rows=120, run=RUN),
        TableInterval("s", START, "d", "lost", 7, State.FAILED, run=RUN),
    ]
    interval = ClosedInterval("s", START, START + 25 * SECOND, 0, 12, f"{A}:1-12", START)
    IntervalLedger(store.engine).close(interval, pieces)
    return store


def find_runs(dag_id, run_id):
    return {"known": [Planned("s", RUN)], "empty": []}.get(run_id)


@pytest.fixture(scope="module")
def client(history):
    with client_of(app_of(lambda: settings_of(history), find_runs)) as client:
        yield client


def text(answer):
    """What a reader sees."""
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def table(client, name="clients", **asked):
    return client.get("/table", params={"source": "s", "database": "d", "table": name, **asked})


PATHS = (
    "/",
    "/tables?source=s",
    "/table?source=s&database=d&table=clients",
    "/search?source=s&text=a",
    "/run?dag_id=d&run_id=known",
    "/api/sources",
    "/api/schema?source=s&database=d&table=clients",
    "/api/history?source=s&database=d&table=clients",
    "/openapi.json",
    "/static/strata.css",
    "/static/strata.js",
)


@pytest.mark.parametrize("path", [*PATHS, "/sign-in?token=wrong", "/tables?source=nobody", "/static/none"])
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "strata_token=wrong"}])
def test_nobody_reads_without_the_token(client, path, given):
    answer = client.get(path, headers={"Authorization": "", **given})
    assert answer.status_code == 401
    assert "clients" not in answer.text


def test_every_route_was_asked(history):
    """A route that is added is asked for above, too."""
    paths = {route.path for route in app_of(lambda: settings_of(history)).routes}
    asked = {path.partition("?")[0] for path in PATHS}
    assert {path.replace("{name}", "strata.css") for path in paths} - {"/sign-in"} <= asked


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_what_is_not_ours(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"""(?:href|src|action)=["']?(?:https?:)?//""", answer.text)
    assert not re.search(r"\son\w+=|style=|<script>", answer.text)


def test_a_link_signs_a_browser_in_and_the_token_stands_in_no_later_address(client):
    answer = client.get("/sign-in", params={"token": TOKEN}, headers={"Authorization": ""})
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    client.cookies.clear()
    signed_in = client.get("/", headers={"Authorization": "", "Cookie": f"strata_token={TOKEN}"})
    assert signed_in.status_code == 200


def test_the_first_page_says_what_needs_attention_first_and_with_which_command(client):
    said = text(client.get("/"))
    assert "7 rows of d.lost in 1 interval failed their checks" in said
    assert "strata run --source s --failed" in said
    assert "the schema of d.lost is not known" in said
    assert "strata snapshot --source s" in said
    assert "untouched nothing has been tracked yet strata run --source untouched" in said


def test_tables_are_listed_with_what_became_of_them(client):
    said = text(client.get("/tables", params={"source": "s"}))
    assert "d.customers now d.clients" in said
    assert "d.gone dropped" in said
    assert "d.lost not known" in said
    assert text(client.get("/tables", params={"source": "s", "containing": "D.CLI"})).count("d.c") == 1
    assert "No table has such a name" in text(client.get("/tables", params={"source": "s", "containing": "%"}))


def test_names_and_comments_are_text_whatever_is_in_them(client):
    for answer in (client.get("/tables", params={"source": "s"}), table(client, HOSTILE)):
        assert HOSTILE not in answer.text
        assert HOSTILE in unescape(answer.text)
    # What turns the direction of writing is kept to its own element.
    assert "<bdi" in answer.text


def test_a_table_is_shown_as_it_is_with_where_each_column_comes_from(client):
    said = text(table(client))
    assert "mail before: email varchar(100)" in said
    assert "CREATE TABLE `clients`" in said
    assert "120 120 published" in said
    assert "rows: fill; filled email = NULL" in said
    # The new column has the name of two others, and is none of them.
    assert re.search(r"email text \S+ 2023-11-14 22:13:26 ALTER TABLE customers ADD COLUMN email TEXT", said)


@pytest.mark.parametrize(
    ("at", "columns"),
    [
        (f"{A}:1-2", {"id", "email", "status"}),
        ("binlog.000001:460", {"id", "email", "phone", "status"}),
        ("2023-11-14 22:13:24.5", {"id", "mail", "email", "status"}),
    ],
)
def test_a_table_is_shown_as_it_was(client, at, columns):
    answer = table(client, "customers", at=at)
    shown = answer.text.partition('id="as-of"')[2].partition("<details>")[0]
    assert set(re.findall(r'<td><bdi class="name">(.*?)</bdi>', shown)) == columns
    line = client.get("/api/schema", params={"source": "s", "database": "d", "table": "customers", "at": at}).json()
    assert {column["name"] for column in line["columns"]} == columns


def test_where_a_table_was_not_there_the_page_says_so(client):
    said = text(table(client, "clients", at=f"{A}:1-2"))
    assert f"there is no such table at GTID set {A}:1-2" in said


@pytest.mark.parametrize(
    ("path", "asked", "status", "message"),
    [
        ("/tables", {"source": "nobody"}, 400, "there is no source 'nobody'"),
        ("/tables", {"source": "untouched"}, 400, "nothing has been tracked yet"),
        ("/table", {"source": "s", "database": "d", "table": "client"}, 400, "do you mean d.clients"),
        ("/table", {"source": "s", "database": "d", "table": "clients", "at": "noon"}, 400, "is no time"),
        ("/table", {"source": "s", "database": "d", "table": "clients", "before": 1, "after": 99}, 400, "version"),
        ("/run", {"dag_id": "d", "run_id": "unknown"}, 400, "there is no run 'unknown'"),
        ("/api/history", {"source": "s", "database": "d", "table": "client"}, 400, "do you mean d.clients"),
        ("/table", {"source": "s", "database": "d"}, 422, "table"),
        ("/tables", {"source": "s" * 1000}, 422, "source"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(client, path, asked, status, message):
    answer = client.get(path, params=asked)
    assert answer.status_code == status
    assert message in unescape(answer.text)


def test_two_versions_are_compared_with_columns_followed_through_their_names(client):
    ids = [int(found) for found in re.findall(r'id="v(\d+)"', table(client).text)]
    answer = table(client, before=ids[-1], after=ids[0])
    rows = re.findall(r'<tr class="(\w+)"><td>.</td><td>(.*?)</td><td>(.*?)</td></tr>', answer.text, re.DOTALL)
    named = [(kind, *(" ".join(re.findall(r'class="name">(.*?)<', side)) for side in sides)) for kind, *sides in rows]
    assert named == [
        ("same", "id", "id"),
        ("changed", "email", "mail"),
        ("same", "status", "status"),
        ("added", "", "email"),
    ]


@pytest.mark.parametrize(
    ("looked_for", "found"),
    [("MAIL", "RENAME COLUMN email TO mail"), ("gone", "CREATE TABLE gone"), ("'old'", "ENUM('new','old')")],
)
def test_search_finds_statements_and_tables_that_are_gone(client, looked_for, found):
    assert found in text(client.get("/search", params={"source": "s", "text": looked_for}))


def test_search_takes_wildcards_as_they_are(client):
    for wildcard in ("%", "zz_z", "\\"):
        said = text(client.get("/search", params={"source": "s", "text": wildcard}))
        assert "has" in said
        assert "Statements" not in said


def test_a_run_shows_what_changed_in_it(client):
    said = text(client.get("/run", params={"dag_id": "d", "run_id": "known"}))
    assert "ALTER TABLE customers ADD COLUMN phone" in said
    assert "d.clients 120 120 published" in said
    assert "planned nothing yet" in text(client.get("/run", params={"dag_id": "d", "run_id": "empty"}))


def test_programs_get_the_lines_that_the_command_prints(client, history, capsys):
    url = str(history.engine.url)
    assert run(["schema", "history", "--store", url, "--source", "s", "--table", "d.clients", "--format", "jsonl"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert client.get("/api/history", params={"source": "s", "database": "d", "table": "clients"}).json() == printed


def test_a_store_that_does_not_answer_is_shown_as_that_and_its_password_is_not(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('lake = "lake"\n[sources.far]\nconnection = "c"\n')
    load = settings_of_file(path)
    with client_of(app_of(load)) as client:
        first, second = client.get("/"), client.get("/tables", params={"source": "far"})
    assert (first.status_code, second.status_code) == (200, 503)
    for answer in (first, second):
        assert "127.0.0.1" in answer.text
        assert "hidden" not in answer.text


def settings_of_file(path):
    from strata.config.settings import load_settings  # noqa: PLC0415  beside the other of its kind

    environment = {"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_C": "mysql://u:hidden@127.0.0.1:1/"}
    return lambda: load_settings(environment)
