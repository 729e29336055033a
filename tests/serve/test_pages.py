"""The pages over HTTP: what they say, whom they refuse, and that names are text whatever is in them."""

from __future__ import annotations

import json
import re
import time
from html import unescape

import pytest
from msgspec.structs import replace

from strata_cdc.cli.main import run
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.serve.around import AirflowTask, PageHost
from strata_cdc.serve.numbers import Numbers
from strata_cdc.serve.run_page import PlannedByAirflow
from strata_cdc.store.database import open_store
from strata_cdc.store.decisions import Decision, DecisionLedger, Verb
from strata_cdc.store.ledgers import (
    ClosedInterval,
    IntervalLedger,
    PublishedDetails,
    PublishedInterval,
    PublishedLedger,
    VersionRows,
)
from strata_cdc.store.read_again import ReadAgainLedger, TableToRead
from strata_cdc.store.table_intervals import IntervalState, TableInterval
from strata_cdc.store.tables import schema_version
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictDetails, VerdictLedger, VerdictOutcome
from tests.schema.streams import SECOND, A, Stream, track
from tests.serve.conftest import SETTINGS, TOKEN, app_of, client_of, settings_of

HOSTILE = '<script>alert("x")</script>'
START = 1_700_000_000 * SECOND
RUN = "20231114T221320Z-20231114T221345Z-s-rows-0f1e2d3c4b"
NUMBERS = {
    "s": {
        "lag_seconds": 312.0,
        "purge_distance_seconds": 7200.0,
        "progress_age_seconds": 5400.0,
        "mirror_count": 2,
        "mirror_lag_seconds": 95_000.0,
    },
    "untouched": {"lag_seconds": None, "mirror_count": 0},
}
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
    make_history(store)
    return store


def make_history(store):
    """A history, and an interval of which rows failed."""
    track(store, Stream(), *STATEMENTS)
    table_intervals = [
        TableInterval("s", START, "d", "clients", 120, IntervalState.PUBLISHED, published_rows=120, run=RUN),
        TableInterval("s", START, "d", "lost", 7, IntervalState.FAILED, run=RUN),
    ]
    interval = ClosedInterval("s", START, START + 25 * SECOND, 0, 12, f"{A}:1-12", START)
    IntervalLedger(store.engine).close(interval, table_intervals)
    rule = FailedRule(
        "expect_column_values_to_not_be_null",
        "id",
        "error",
        f"id is NULL, beside {HOSTILE}",
        rows=7,
        examples=('{"_seq": 12, "id": null}',),
    )
    few = FailedRule("expect_table_row_count_to_be_between", None, "warning", "fewer rows than expected", "120")
    details = VerdictDetails(RUN, (3, 4), 120, 9)
    verdicts = [
        StoredVerdict("s", START, "", VerdictOutcome.PASSED, START, VerdictDetails(RUN)),
        StoredVerdict("s", START, "d.clients", VerdictOutcome.WARNED, START, replace(details, failures=(few,))),
        StoredVerdict("s", START, "d.lost", VerdictOutcome.FAILED, START, replace(details, rows=7, failures=(rule,))),
    ]
    VerdictLedger(store.engine).put(verdicts)
    ids = store.newest_version("s", TableName("d", "customers")), store.newest_version("s", TableName("d", "clients"))
    for name, version, rows, size in (("d.customers", ids[0] - 1, 20, 900), ("d.clients", ids[1], 100, 5400)):
        details = PublishedDetails(f"{A}:1-12", RUN, (version,), (VersionRows(version, rows, size),))
        PublishedLedger(store.engine).put(PublishedInterval("s", START, name, 0, rows, START, details))
    # As a server's own QUERY event has it.
    session = {"server_id": 3, "thread_id": 4711, "invoker": f"ada@{HOSTILE}"}
    with store.engine.begin() as connection:
        connection.execute(schema_version.update().where(schema_version.c.ddl == STATEMENTS[5]).values(session))
    reported = Decision("s", START, "d", "lost", RUN, Verb.DISCARD, "a test's rows", "ada", START, 7)
    DecisionLedger(store.engine).begin(reported)


def find_runs(dag_id, run_id, map_index):
    planned = {"known": [PlannedByAirflow("s", RUN)], "empty": []}.get(run_id)
    return planned if planned is None or map_index is None else planned[map_index : map_index + 1]


def find_task(run):
    return AirflowTask("ingest_binlog", "manual__2026-11-23T09:00:00+00:00", "ingest.plan", 3) if run == RUN else None


@pytest.fixture(scope="module")
def client(history):
    around = PageHost(Numbers(NUMBERS.__getitem__), find_runs, find_task, "../strata-docs")
    with client_of(app_of(lambda: settings_of(history), around)) as client:
        # They are read beside the first page that asks for them.
        while "numbers read" not in client.get("/").text:
            time.sleep(0.01)
        yield client


def text(answer):
    """What a reader sees."""
    assert answer.status_code == 200, answer.text
    return text_of(answer.text)


def text_of(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def table(client, name="clients", **asked):
    return client.get("/table", params={"source": "s", "database": "d", "table": name, **asked})


PATHS = (
    "/",
    "/tables?source=s",
    "/table?source=s&database=d&table=clients",
    "/row?source=s&database=d&table=clients",
    "/search?source=s&text=a",
    "/run?dag_id=d&run_id=known",
    "/api/sources",
    "/api/schema?source=s&database=d&table=clients",
    "/schema/show?source=s&database=d&table=clients",
    "/schema/history?source=s&database=d&table=clients",
    "/api/history?source=s&database=d&table=clients",
    "/verdicts?source=s",
    f"/verdict?source=s&start={START}",
    f"/api/verdict?source=s&start={START}",
    f"/airflow?source=s&run={RUN}",
    "/openapi.json",
    "/static/strata.css",
    "/static/strata.js",
)


@pytest.mark.parametrize(
    "path",
    [*(path for path in PATHS if not path.startswith("/static/")), "/sign-in?token=wrong", "/tables?source=nobody"],
)
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "strata_token=wrong"}])
def test_nobody_reads_without_the_token(client, path, given):
    answer = client.get(path, headers={"Authorization": "", **given})
    assert answer.status_code == 401
    assert "clients" not in answer.text


def test_every_route_was_asked(history):
    """A route that is added is asked for above, too; rows need a lake (`test_row_pages.py`)."""
    paths = {route.path for route in app_of(lambda: settings_of(history)).routes}
    asked = {path.partition("?")[0] for path in PATHS}
    assert {path.replace("{name}", "strata.css") for path in paths} - {"/sign-in", "/rows", "/undo"} <= asked


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_what_is_not_ours(client, path):
    answer = client.get(path)
    assert answer.status_code == (303 if path.startswith("/airflow") else 200)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"""(?:href|src|action)=["']?(?:https?:)?//""", answer.text)
    # In JSON a name is a text whatever is in it; no browser takes the answer for a page.
    if answer.headers.get("content-type") != "application/json":
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
    urgent = [
        "the server may purge transactions that have not landed, in 2 h strata land --source s",
        "no landing has looked and no run has stored anything for 1 h 30 min strata run --source s",
        "a mirror is late by 1 d 2 h strata mirror update --source s",
        "7 rows of d.lost",
        "the schema of d.lost is not known",
    ]
    assert [said.index(one) for one in urgent] == sorted(said.index(one) for one in urgent)


def test_the_first_page_names_mirrors_that_wait_for_a_dump(client, store):
    ledger = ReadAgainLedger(store.engine)
    ledger.notice("s", [TableToRead("s", "d", "orders", 7, "another program has changed it", START)], [("d", "orders")])
    try:
        said = text(client.get("/"))
    finally:
        ledger.done("s", "d", "orders")
    assert "the mirror of d.orders is to be read again: another program has changed it" in said
    assert "strata dump --source s --table d.orders" in said


def test_the_first_page_has_the_numbers_of_each_source(client):
    said = text(client.get("/"))
    for number in (
        "readers are late by 5 min 12 s",
        "the server may purge what is not here in 2 h",
        "last progress 1 h 30 min ago",
        "last interval ends 1 minute ago 2023-11-14 22:13:45 UTC",
        "checks 1 table failed 2 tables of 2023-11-14 22:13:20 UTC",
        "in quarantine or held 7 rows",
        "versions 13",
        "gaps 1 table",
        "mirrors 2 the oldest 1 d 2 h late",
        "position binlog.000001:",
    ):
        assert number in said, number


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
    assert "PRIMARY primary (id)" in said
    assert "120 120 published" in said
    assert "rows: all get email = NULL" in said
    assert f"session 4711 on the server with id 3, ada@{HOSTILE}" in said
    # The new column has the name of two others, and is none of them.
    assert re.search(r"email text \S+ 2023-11-14 22:13:26 ALTER TABLE customers ADD COLUMN email TEXT", said)


def test_names_that_a_table_has_had_are_drawn_one_below_the_other(client):
    drawn = table(client).text.partition('class="names"')[2].partition("</dl>")[0]
    assert re.findall(r"<dt>.*?<bdi>(.*?)</bdi>", drawn) == ["d.customers", "d.clients"]
    lanes = re.findall(r"<svg.*?</svg>", drawn)
    shown = [re.findall(r'class="band (\w+)" x="([\d.]+)"', lane) for lane in lanes]
    assert [len(bands) for bands in shown] == [6, 1]
    # Where the one ends the other begins.
    assert shown[0][-1] == ("moved", shown[1][0][1])
    assert 'class="names"' not in table(client, "gone").text


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


def test_links_lead_to_what_each_change_left_without_gtids(tmp_path):
    (tmp_path / "settings.toml").write_text(SETTINGS)
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    track(store, Stream(anonymous=True), "CREATE DATABASE d", "CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT")
    with client_of(app_of(lambda: settings_of(store))) as client:
        links = re.findall(r'href="(?:table)?(\?[^"]*)#as-of"', table(client, "t").text)
        shown = [client.get(f"/table{unescape(link)}").text.partition('id="as-of"')[2] for link in links]
    columns = [re.findall(r'<td><bdi class="name">(.*?)</bdi>', text.partition("<details>")[0]) for text in shown]
    # The bands in order of time, then the versions, the newest first.
    assert columns == [["a"], ["a", "b"], ["a", "b"], ["a"]]


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
        ("/verdict", {"source": "s", "start": START - 1}, 400, "no closed interval has this time"),
        ("/verdict", {"source": "s", "start": 1 << 63}, 422, "start"),
        ("/verdicts", {"source": "s", "before": "now"}, 422, "before"),
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
    said = text_of(answer.text.partition('id="difference"')[2].partition("</section>")[0])
    assert re.search(r"What became of the rows .*2023-11-14 22:13:26 all get email = NULL", said)


@pytest.mark.parametrize(
    ("looked_for", "found"),
    [
        ("MAIL", "RENAME COLUMN email TO mail"),
        ("gone", "CREATE TABLE gone"),
        ("'old'", "ENUM('new','old')"),
        ("create d", "UTC CREATE DATABASE d"),
    ],
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
    assert "UTC CREATE DATABASE d" in said
    assert "d.clients 120 120 published" in said
    assert "planned nothing yet" in text(client.get("/run", params={"dag_id": "d", "run_id": "empty"}))


def test_what_the_checks_found_is_told_with_what_failed_first(client):
    assert "1 table failed 2 tables of" in text(client.get("/"))
    assert "2023-11-14 22:13:20 0 1 1 1 minute ago" in text(client.get("/verdicts", params={"source": "s"}))
    said = text(client.get("/verdict", params={"source": "s", "start": START}))
    # As an interval is found that is part of a longer one by now.
    assert text(client.get("/verdict", params={"source": "s", "start": START + 1})) == said
    assert said.index("d.lost checks: failed rows: failed") < said.index("d.clients checks: warned rows: published")
    assert "expect_column_values_to_not_be_null of id error id is NULL, beside <script>" in said
    assert '7 rows 1 example {"_seq": 12, "id": null}' in said
    assert "fewer rows than expected · found: 120" in said
    assert "120 rows, 9 checks, under versions 3, 4" in said
    command = "strata quarantine show --source s --table d.lost --interval 2023-11-14T22:13:20.000000Z"
    assert f"7 rows withheld {command}" in said
    assert "discard of 7 rows by ada" in said
    lines = client.get("/api/verdict", params={"source": "s", "start": START}).json()
    assert [(line["table"], line["outcome"]) for line in lines] == [
        ("", "passed"),
        ("d.clients", "warned"),
        ("d.lost", "failed"),
    ]


def test_data_docs_are_linked_where_somebody_serves_them(history):
    asked = {"source": "s", "start": START}
    docs = f'href="../strata-docs/s/{RUN}/index.html"'
    with client_of(app_of(lambda: settings_of(history), PageHost(data_docs="../strata-docs"))) as client:
        assert docs in client.get("/verdict", params=asked).text
        assert docs in table(client, "lost").text
    with client_of(app_of(lambda: settings_of(history))) as client:
        assert "strata-docs" not in client.get("/verdict", params=asked).text + table(client, "lost").text


def test_runs_lead_to_airflow_where_it_has_planned_them(client):
    answer = client.get("/airflow", params={"source": "s", "run": RUN})
    there = "../dags/ingest_binlog/runs/manual__2026-11-23T09%3A00%3A00%2B00%3A00"
    assert (answer.status_code, answer.headers["location"]) == (303, there)
    log = client.get("/airflow", params={"source": "s", "run": RUN, "to": "log"}).headers["location"]
    assert log == f"{there}/tasks/ingest.publish/mapped/3"
    assert "a command did" in client.get("/airflow", params={"source": "s", "run": "none"}).text


def test_rows_that_are_withheld_are_told_with_reasons_and_examples(client):
    said = text(table(client, "lost"))
    assert "Withheld rows 2023-11-14 22:13:20 UTC failed 7 rows of 7" in said
    assert 'error id is NULL, beside <script>alert("x")</script> · 7 rows 1 example {"_seq": 12, "id": null}' in said
    assert "strata quarantine show --source s --table d.lost --interval 2023-11-14T22:13:20.000000Z" in said
    assert "Withheld rows" not in text(table(client))


def test_versions_tell_what_they_decoded(client):
    reported = re.findall(r'id="v\d+">(.*?)</article>', table(client).text, re.DOTALL)
    newest, before, *others = map(text_of, reported)
    assert "decoded 100 rows, 5.4 kB" in newest
    assert "decoded 20 rows, 900 bytes" in before
    assert not any("decoded" in one for one in others)


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
    from strata_cdc.config.settings import load_settings  # noqa: PLC0415  beside the other of its kind

    environment = {"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_C": "mysql://u:hidden@127.0.0.1:1/"}
    return lambda: load_settings(environment)
