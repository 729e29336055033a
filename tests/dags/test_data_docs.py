"""The way from the task `check` to its Data Docs: the link, and the pages behind the api-server's login."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from dags.docs_link import PAGES, DataDocsLink
from dags.steps import CheckSubmit, ShutSparkSubmit
from plugins import data_docs

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


def url_of(*arguments: Any) -> str:
    operator: Any = SimpleNamespace(application_args=list(arguments))
    key: Any = None
    return DataDocsLink().get_link(operator, ti_key=key)


def test_the_link_of_a_check() -> None:
    assert url_of("--run-url", f"s3://lake/runs/shop/{RUN}", "--engine", "x").endswith(f"{PAGES}/shop/{RUN}/index.html")
    assert [url_of(), url_of("--run-url")] == ["", ""]
    assert PAGES == data_docs.PAGES == data_docs.DataDocs.fastapi_apps[0]["url_prefix"]
    assert [link.name for link in CheckSubmit.operator_extra_links] == ["Data Docs"]
    assert not ShutSparkSubmit.operator_extra_links


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
