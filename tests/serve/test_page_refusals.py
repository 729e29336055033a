"""What a page cannot answer, told on the page: times that the history does not reach, browsers without the token."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.serve.test_pages import client, history

__all__ = ["client", "history"]

CLIENTS = {"source": "s", "database": "d", "table": "clients"}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("noon", "'noon' is no time"),
        ("2020-01-01", "the history of the stream starts after 2020-01-01 00:00:00.000000 UTC"),
        ("2126-01-01", "The stream has been tracked up to"),
    ],
)
def test_a_time_that_the_history_does_not_reach_keeps_the_page_and_its_form(client, at, said):
    text = unescape(client.get("/table", params=CLIENTS | {"at": at}).text)
    assert said in text
    assert f'name="at" value="{at}"' in text
    assert "Versions</h2>" in text
    assert "`strata" not in text


def test_a_browser_without_the_token_is_told_how_to_sign_in(client):
    answer = client.get("/", headers={"Authorization": "", "Accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert '<code class="command">strata serve</code>' in answer.text
    (looks,) = re.findall('<link rel="stylesheet" href="([^"]+)">', answer.text)
    assert client.get(f"/{looks}", headers={"Authorization": ""}).headers["content-type"].startswith("text/css")
    assert client.get("/", headers={"Authorization": "", "Accept": "*/*"}).json()["detail"].startswith("the token is")
