"""The page in Airflow's own web server: who may read it, and that the navigation has it.
Not here: the Airflow that it is in (`test_live.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from scripts.services import WATCHER
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.serve.app import make_app
from strata_cdc.serve.sources import Sources
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import ClosedInterval, IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableInterval
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictDetails, VerdictLedger, VerdictOutcome
from tests.airflow.live import API_PASSWORD
from tests.browser import open_browser
from tests.schema.streams import SECOND, A, Stream, track

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 180
RUN = "20231114T221320Z-20231114T221325Z-shop-rows-0f1e2d3c4b"
START = 1_700_000_000 * SECOND
TABLE = "source=shop&database=d&table=t"
ROWS = (f"/rows?{TABLE}", f"/row?{TABLE}", f"/undo?{TABLE}&gtid={A}:2")
"""Off in Airflow, unless the settings turn them on."""
REFUSED = ("/run?dag_id=d&run_id=r", f"/airflow?source=shop&run={RUN}", *ROWS)
PATHS = (
    "/",
    "/tables?source=shop",
    f"/table?{TABLE}",
    "/search?source=shop&text=t",
    "/verdicts?source=shop",
    f"/verdict?source=shop&start={START}",
    "/api/sources",
    f"/api/schema?{TABLE}",
    f"/api/history?{TABLE}",
    f"/schema/show?{TABLE}",
    f"/schema/history?{TABLE}",
    f"/api/verdict?source=shop&start={START}",
    "/openapi.json",
    "/static/strata.css",
    *REFUSED,
)


def write_past(folder: Path) -> str:
    """A store with a history for the page; returns the path of settings that name it."""
    store = f"sqlite:///{folder}/past.db"
    engine = open_store(store)
    track(SchemaStore(engine), Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)", source="shop")
    piece = TableInterval("shop", START, "d", "t", 7, IntervalState.FAILED, run=RUN)
    IntervalLedger(engine).close(ClosedInterval("shop", START, START + 5 * SECOND, 0, 2, f"{A}:1-2", START), [piece])
    rule = FailedRule("expect_column_values_to_not_be_null", "a", "error", "a is NULL", rows=7)
    details = VerdictDetails(RUN, (2,), 7, 1, (rule,))
    VerdictLedger(engine).put([StoredVerdict("shop", START, "d.t", VerdictOutcome.FAILED, START, details)])
    engine.dispose()
    settings = folder / "past.toml"
    settings.write_text(f'lake = "lake"\nstore = "{store}"\n[sources.shop]\nconnection = "mysql_shop"\n')
    return str(settings)


def check_page(address: str) -> None:
    """Every route, with and without a token; then by a browser. The account may only look."""
    signed_in = httpx.post(
        f"{address}/auth/token",
        json={"username": WATCHER, "password": API_PASSWORD},
        trust_env=False,
        timeout=START_SECONDS,
    )
    headers = {"Authorization": f"Bearer {signed_in.json()['access_token']}"}
    routes = {route.path.replace("{name}", "strata.css") for route in make_app(Sources(dict), list, int).routes}
    assert routes == {path.partition("?")[0] for path in PATHS}
    # A server that has just been installed compiles what it imports, which the first requests wait for.
    with httpx.Client(base_url=address, trust_env=False, timeout=START_SECONDS) as client:
        for path in PATHS:
            assert client.get(f"/strata{path}").status_code == 401, path
            answer = client.get(f"/strata{path}", headers=headers)
            assert answer.status_code == (400 if path in REFUSED else 200), path
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert client.request(method, f"/strata{path}", headers=headers).status_code == 405, path
        check_places(client.get("/api/v2/plugins", headers=headers))
    browse(address)


def check_places(answer):
    """Where Airflow shows the page. Whoever may only look is not told of plugins."""
    if answer.status_code == 200:
        views = [view for plugin in answer.json()["plugins"] for view in plugin["external_views"]]
        assert {(view["name"], view["destination"]) for view in views} >= {
            ("Schema history", "nav"),
            ("What changed", "dag_run"),
            ("What changed", "task_instance"),
        }


def browse(address):
    """By the navigation to a table; the frame has Airflow's cookie."""
    with open_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(START_SECONDS * 1000)
        hosts = set()
        page.on("request", lambda asked: hosts.add(asked.url.split("/")[2]))
        page.goto(address)
        page.fill("input[name=username]", WATCHER)
        page.fill("input[name=password]", API_PASSWORD)
        page.press("input[name=password]", "Enter")
        page.get_by_text("Schema history").first.click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="shop").click()
        frame.get_by_role("link", name="d.t").click()
        frame.get_by_text("CREATE TABLE t (a INT)").last.wait_for()
        # The frame lets no page open another: these links are followed by the page around it.
        page.wait_for_url(lambda url: url.startswith(f"{address}/plugin/schema-history/strata/table?"))
        table = page.url
        for link, there in (
            ("Data Docs", f"{address}/strata-docs/shop/{RUN}/index.html"),
            ("log", f"{address}/strata/airflow?source=shop&run={RUN}&to=log"),
        ):
            page.goto(table)
            frame.get_by_role("link", name=link, exact=True).click()
            page.wait_for_url(there)
        page.get_by_text("no run of this Airflow's planned it").wait_for()
        assert hosts == {address.split("/")[2]}
