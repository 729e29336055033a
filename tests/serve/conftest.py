"""A real web server on a store that has a history."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from strata_cdc.config.settings import load_settings
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.serve.app import make_app
from strata_cdc.serve.limits import Limits
from strata_cdc.serve.sources import Sources
from strata_cdc.serve.streaming.answer import OpenStreams
from strata_cdc.serve.streaming.ending import EndingServer
from strata_cdc.serve.token_guard import add_sign_in, token_guard
from strata_cdc.store.database import open_store

TOKEN = "a-token-that-is-long-enough"
PAGE_SECONDS = 120
"""A page is there in a moment where nothing else keeps the machine busy."""
SETTINGS = """
lake = "lake"
store = "sqlite:///store.db"
[sources.s]
connection = "c"
[sources.untouched]
connection = "c"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "settings.toml").write_text(SETTINGS)
    return SchemaStore(open_store(f"sqlite:///{folder}/store.db"))


def settings_of(store):
    path = store.engine.url.database.removesuffix("store.db") + "settings.toml"
    return load_settings({"STRATA_SETTINGS": path, "AIRFLOW_CONN_C": "mysql://u:hidden@127.0.0.1:1/"})


def app_of(load, around=None, limits=Limits()):
    app = make_app(Sources(load), token_guard(TOKEN), lambda: 1_700_000_100_000_000, around, limits)
    add_sign_in(app)
    return app


@contextmanager
def served(app, streams=None, **options):
    """The address of an application that runs, with the streams that end with it."""
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", **options)
    server = EndingServer(config, streams or OpenStreams())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def client_of(app, token=TOKEN):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with served(app) as address, httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def chromium():
    from tests.browser import open_browser  # noqa: PLC0415  most tests of pages need none

    with open_browser() as browser:
        yield browser


@pytest.fixture
def open_page(chromium, address):
    """Opens a signed-in page of a module's `address`; what goes wrong in it is in `troubles`."""
    contexts = []

    def build(width=1280, theme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        context.set_default_timeout(PAGE_SECONDS * 1000)
        contexts.append(context)
        page = context.new_page()
        page.troubles = []
        page.on("console", lambda said: page.troubles.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(address) else page.troubles.append(asked.url))
        page.on("dialog", lambda shown: page.troubles.append(shown.message))
        page.goto(f"{address}/sign-in?token={TOKEN}")
        return page

    yield build
    for context in contexts:
        context.close()
