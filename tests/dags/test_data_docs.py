"""The way from the task `check` to its Data Docs: the link, and the pages behind the api-server's login."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from strata_cdc.airflow.docs_link import HISTORY, PAGES, ChangesLink, DataDocsLink, HistoryLink, VerdictLink
from strata_cdc.airflow.plugins import data_docs, schema_history
from strata_cdc.airflow.spark_step import CheckStep, DecodeStep
from strata_cdc.clock import to_micros

if TYPE_CHECKING:
    from pathlib import Path

LATER = pytest.mark.filterwarnings("ignore:Using `httpx` with:DeprecationWarning", "ignore::UserWarning")
"""What Airflow's api-server imports warns of its own insides."""
RUN = "20261121T033000Z-20261121T033500Z-shop-rows-0f1e2d3c4b"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "strata.toml").write_text('lake = "lake"\n[sources.shop]\nconnection = "x"\n')
    monkeypatch.setenv("STRATA_SETTINGS", str(tmp_path / "strata.toml"))
    docs = tmp_path / "lake" / "runs" / "shop" / RUN / "docs"
    docs.mkdir(parents=True)
    (docs / "index.html").write_text("<p>found")
    (docs.parent / "plan.json").write_text("{}")
    return tmp_path / "lake"


def url_of(planned: Any) -> str:
    operator: Any = SimpleNamespace(planned=planned)
    key: Any = None
    return DataDocsLink().get_link(operator, ti_key=key)


def test_the_link_of_a_check() -> None:
    assert url_of({"source": "shop", "run": RUN}).endswith(f"{PAGES}/shop/{RUN}/index.html")
    assert url_of(None) == ""
    assert PAGES == data_docs.PAGES == data_docs.DataDocs.fastapi_apps[0]["url_prefix"]
    links = [link.name for link in CheckStep.operator_extra_links]
    assert links == ["Verdict", "Data Docs", "What changed", "Spark UI"]
    assert [link.name for link in DecodeStep.operator_extra_links] == ["Spark UI"]


def test_the_links_of_a_publication() -> None:
    operator: Any = SimpleNamespace(op_args=("shop", {"source": "shop", "run": RUN}))
    key: Any = None
    assert DataDocsLink().get_link(operator, ti_key=key).endswith(f"{PAGES}/shop/{RUN}/index.html")
    # The interval that the run ends with is the first on the page.
    end = to_micros(datetime(2026, 11, 21, 3, 35, tzinfo=UTC))
    assert VerdictLink().get_link(operator, ti_key=key).endswith(f"/strata/verdicts?source=shop&before={end}")
    assert VerdictLink().get_link(SimpleNamespace(op_args=("shop", None)), ti_key=key) == ""  # type: ignore[arg-type]


def test_the_links_to_the_schema_history() -> None:
    task: Any = SimpleNamespace(op_args=["shop & more"])
    key: Any = SimpleNamespace(dag_id="ingest_binlog", run_id="manual__2026-11-23T06:14:47.872735+00:00")
    assert HISTORY == schema_history.PREFIX
    assert (
        ChangesLink()
        .get_link(task, ti_key=key)
        .endswith("/strata/run?dag_id=ingest_binlog&run_id=manual__2026-11-23T06%3A14%3A47.872735%2B00%3A00")
    )
    assert HistoryLink().get_link(task, ti_key=key).endswith("/strata/tables?source=shop+%26+more")


def somebody() -> SimpleNamespace:
    """A user who is logged in."""
    return SimpleNamespace()


def get(*paths: str) -> list[httpx.Response]:
    """What the pages answer; a path is sent as it is written."""

    async def answers() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=cast("Any", data_docs.pages))
        async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
            return [await client.get(path) for path in paths]

    return asyncio.run(answers())


@LATER
def test_nobody_sees_a_page_without_a_login(lake: Path) -> None:
    assert [answer.status_code for answer in get(f"/shop/{RUN}/index.html", f"/shop/{RUN}/no.html")] == [401, 401]


@LATER
def test_the_pages_of_a_run_and_nothing_else(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.api_fastapi.core_api import security  # noqa: PLC0415  it warns of its own insides

    allowed = SimpleNamespace(is_authorized_view=lambda **_: True)
    monkeypatch.setattr(security, "get_auth_manager", lambda: allowed)
    monkeypatch.setitem(data_docs._app().dependency_overrides, security.get_user, somebody)
    [page] = get(f"/shop/{RUN}/index.html")
    assert (page.status_code, page.text) == (200, "<p>found")
    assert page.headers["content-security-policy"].startswith("sandbox")
    others = ["shop/other/index.html", f"other/{RUN}/index.html", f"shop/{RUN}/missing.html", "shop/%2e%2e/index.html"]
    outside = ["%2e%2e/plan.json", "..%2fplan.json", "x/%2e%2e/%2e%2e/plan.json", "%2fetc/passwd", ""]
    paths = [*others, *(f"shop/{RUN}/{path}" for path in outside)]
    assert {path: answer.status_code for path, answer in zip(paths, get(*paths), strict=True)} == dict.fromkeys(
        paths, 404
    )


@LATER
@pytest.mark.parametrize("make", [data_docs._app.__wrapped__, lambda: schema_history._PageApplication()._app])
def test_without_airflows_guard_there_is_no_page(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    with pytest.raises(ImportError, match="security"):
        make()
