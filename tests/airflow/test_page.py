"""The page in Airflow's own web server: who may read it, and that the navigation has it."""

from __future__ import annotations

import json
import shutil
import time

import httpx
import pytest
from playwright.sync_api import sync_playwright

from scripts.services import WATCHER
from strata.schema.history.sql_store import SchemaStore
from strata.store.database import open_store
from tests.airflow.test_watcher import API_PASSWORD, PASSWORDS, running
from tests.schema.streams import Stream, track

pytestmark = [pytest.mark.airflow, pytest.mark.browser, pytest.mark.slow]

START_SECONDS = 90
PATHS = ("/", "/tables?source=shop", "/run?dag_id=d&run_id=r", "/api/sources", "/openapi.json", "/static/strata.css")


@pytest.fixture
def address(make_pipeline, tmp_path):
    """Airflow's web server, on a store that has a history; the account may only look."""
    store = f"sqlite:///{tmp_path}/store.db"
    track(SchemaStore(open_store(store)), Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)", source="shop")
    (tmp_path / "strata.toml").write_text(
        f'lake = "lake"\nstore = "{store}"\n[sources.shop]\nconnection = "mysql_shop"\n'
    )
    pipeline = make_pipeline("mysql://nobody@127.0.0.1:1/", STRATA_SETTINGS=str(tmp_path / "strata.toml"))
    (pipeline.state.airflow_home / PASSWORDS).write_text(json.dumps({WATCHER: API_PASSWORD}))
    found = pipeline.environment["AIRFLOW__API__BASE_URL"]
    with running(pipeline, "api-server"):
        deadline = time.monotonic() + START_SECONDS
        while not is_up(found):
            assert time.monotonic() < deadline, (pipeline.folder / "api-server.log").read_text()[-6000:]
            time.sleep(0.2)
        yield found


def is_up(address):
    try:
        return httpx.get(f"{address}/api/v2/version", trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_who_has_signed_in_to_airflow_reads_and_nobody_else(address):
    signed_in = httpx.post(
        f"{address}/auth/token", json={"username": WATCHER, "password": API_PASSWORD}, trust_env=False
    )
    headers = {"Authorization": f"Bearer {signed_in.json()['access_token']}"}
    for path in PATHS:
        assert httpx.get(f"{address}/strata{path}", trust_env=False).status_code == 401, path
        answer = httpx.get(f"{address}/strata{path}", headers=headers, trust_env=False)
        assert answer.status_code == (400 if path.startswith("/run") else 200), path
    browse(address)


def browse(address):
    """By the navigation to a table; the frame has Airflow's cookie."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        page = playwright.chromium.launch(executable_path=chromium, args=arguments).new_page()
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
        assert hosts == {address.split("/")[2]}
