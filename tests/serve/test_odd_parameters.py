"""Addresses that people and programs get wrong: each is refused on a page, in words."""

from __future__ import annotations

from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.serve.test_row_pages import pages, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

__all__ = ["pages"]

pytestmark = pytest.mark.mysql
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TABLE = {"source": "s", "database": "shop", "table": "people"}
MICROS = "1700000000000000"
ROUTES = {
    "/": {},
    "/tables": {"source": "s", "containing": "p", "after_database": "shop", "after_table": "bag"},
    "/table": TABLE | {"at": "", "before": "1", "after": "2", "older_than": "3"},
    "/search": {"source": "s", "text": "people"},
    "/run": {"dag_id": "d", "run_id": "r", "map_index": "1"},
    "/airflow": {"source": "s", "run": "r", "to": "run"},
    "/rows": TABLE | {"where": "id = 1", "at": ""},
    "/row": TABLE | {"key": "1", "at": ""},
    "/undo": TABLE | {"table": "pairs", "gtid": "", "key": "1"},
    "/verdicts": {"source": "s", "before": MICROS, "unsound": "true"},
    "/verdict": {"source": "s", "start": MICROS, "offset": "0"},
    "/api/schema": TABLE | {"at": ""},
    "/api/history": TABLE,
    "/api/verdict": {"source": "s", "start": MICROS},
    "/nowhere": {},
}
ODD = (
    "", " ", "-1", "1.5", "9" * 30, str(1 << 63), "\u0663", "\U0001f600", "\0", "\ud800", "a\nb", "'", "`", "%",
    "x" * 4000, "nan", "<script>", "2026-02-30", "0001-01-01", "9999-12-31 23:59:59.999999",
    "binlog.000001:4", "binlog.000001:-4",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:9223372036854775808", "0-1-1", "id = ", "(" * 500, "1" + "+1" * 400,
)  # fmt: skip


def _addresses(path: str) -> Iterator[str]:
    parameters = ROUTES[path]
    yield path
    for name in parameters:
        others = [(other, value) for other, value in parameters.items() if other != name]
        yield _address(path, others)
        yield _address(path, [*parameters.items(), (name, "2")])
        yield from (_address(path, [*others, (name, odd)]) for odd in ODD)


def _address(path: str, parameters: list[tuple[str, str]]) -> str:
    written = (f"{name}={quote(value.encode('utf-8', 'surrogatepass'), safe='')}" for name, value in parameters)
    return f"{path}?{'&'.join(written)}"


@pytest.mark.parametrize("path", ROUTES)
def test_no_address_is_more_than_refused(pages: tuple[httpx.Client, str], path: str) -> None:
    client, _ = pages
    for address in _addresses(path):
        answer = client.get(address, headers=BROWSER)
        assert answer.status_code < 500, address
        kind = "application/json" if path.startswith("/api/") else "text/html"
        assert answer.headers["content-type"].startswith(kind), address
        if answer.status_code == 422:
            said = answer.json()["message"] if path.startswith("/api/") else text_of(answer)
            assert "the parameter '" in said, address


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/verdict?source=s&start=now", "the parameter 'start': 'now' is no whole number"),
        ("/verdict?source=s", "the parameter 'start' is missing"),
        ("/verdict?source=s&start=-1", "the parameter 'start': '-1' is less than 0, the least that there is"),
        (f"/verdict?source=s&start={1 << 63}", f"is not less than {1 << 63}"),
        ("/verdict?source=s&start=1&offset=x", "the parameter 'offset': 'x' is no whole number"),
        ("/verdicts?source=s&unsound=perhaps", "the parameter 'unsound': 'perhaps' is neither true nor false"),
        ("/airflow?source=s&run=r&to=nowhere", "'nowhere' is not one of 'run' or 'log'"),
        (f"/tables?source={'s' * 65}", "the parameter 'source' has more than 64 characters"),
        (f"/row?source=s&database=d&table=t{'&key=1' * 17}", "the parameter 'key' is given more than 16 times"),
    ],
)
def test_a_page_says_what_is_wrong_and_what_to_do(pages: tuple[httpx.Client, str], address: str, said: str) -> None:
    client, _ = pages
    answer = client.get(address, headers=BROWSER)
    assert answer.status_code == 422
    shown = text_of(answer)
    assert said in shown
    assert "Correct the address, or begin at the first page" in shown
    asked = client.get(address, headers={"Accept": "application/json"})
    assert asked.status_code == 422
    assert said in asked.json()["message"]
    assert asked.json()["detail"][0]["loc"][0] == "query"


def test_a_parameter_that_is_there_twice_is_refused(pages: tuple[httpx.Client, str]) -> None:
    client, _ = pages
    answer = client.get("/tables?source=s&source=t", headers=BROWSER)
    assert answer.status_code == 400
    assert "the parameter 'source' is given more than once" in text_of(answer)
    assert client.get("/api/schema?source=s&database=d&table=t&table=u").json()["error"] == "Usage"


def test_a_condition_that_is_too_deep_is_refused_on_the_page(pages: tuple[httpx.Client, str]) -> None:
    client, _ = pages
    where = "(" * 500 + "id" + ")" * 500
    answer = client.get("/rows", params=TABLE | {"where": where}, headers=BROWSER)
    assert answer.status_code == 400
    assert "nested too deeply" in unescape(answer.text)
