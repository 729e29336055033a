"""The pages of a TiCDC sink: points are commit timestamps and times, and links lead to what was valid then."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.serve.conftest import app_of, client_of
from tests.ticdc.generator import START, Feed, Row, SinkTable
from tests.ticdc.world import ID, NAME, OLD_VALUES, SinkWorld, named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

CREATED, DDL, END = START + (1 << 18), START + (10 << 18), START + (100 << 18)
TABLE = {"source": "s", "database": "shop", "table": "a"}
OLD, NEW = {"id"}, {"id", "name"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder: Path = tmp_path_factory.mktemp("sink")
    world = SinkWorld(folder, 'mirrors = ["shop.*"]')
    feed = Feed(world.sink, OLD_VALUES)
    table = SinkTable("shop", "a", (), CREATED)
    feed.ddl(table, CREATED, 3, "CREATE TABLE a (id INT PRIMARY KEY)", (ID,))
    feed.write(table, [Row(START + (5 << 18), {"id": 1}), Row(DDL, {"id": 2})])
    added = replace(NAME, default="new")
    feed.ddl(table, DDL, 5, "ALTER TABLE a ADD COLUMN name VARCHAR(20) DEFAULT 'new'", (ID, added))
    feed.write(table, [Row(START + (30 << 18), named(3))])
    feed.checkpoint(END)
    world.run()
    with client_of(app_of(lambda: world.settings)) as client:
        yield client


def columns(pages: httpx.Client, at: str) -> set[str]:
    answer = pages.get("/table", params={**TABLE, "at": at})
    assert answer.status_code == 200, answer.text
    shown = answer.text.partition('id="as-of"')[2].partition("<details>")[0]
    line = pages.get("/api/schema", params={**TABLE, "at": at}).json()
    on_page = set(re.findall(r'<td><bdi class="name">(.*?)</bdi>', shown))
    assert on_page == {column["name"] for column in line["columns"]}
    assert "has been tracked up to" not in shown
    return on_page


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (f"{CREATED}", OLD),
        (f"{DDL - 1}", OLD),
        (f"{DDL}:rows", OLD),
        (f"{DDL}", NEW),
        (f" {END - 1} ", NEW),
        ("", NEW),
        ("2026-05-01 15:22:05.791", OLD),
        ("2026-05-01 15:22:05.791001", NEW),
    ],
)
def test_a_table_is_shown_as_of_a_commit_timestamp(pages: httpx.Client, at: str, shown: set[str]) -> None:
    assert columns(pages, at) == shown


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (f"{END}", "has not landed yet"),
        (f"{CREATED - 1}", "there is no such table at transaction 0"),
        ("1", "'1' is no position"),
        (f"{1 << 63}", "is no commit timestamp"),
        (f"{DDL}:row", "is no position"),
        ("binlog.000001:4", "is no position"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "is no position"),
    ],
)
def test_a_point_that_the_sink_does_not_have_is_refused(pages: httpx.Client, at: str, message: str) -> None:
    page, answer = (pages.get(path, params={**TABLE, "at": at}) for path in ("/table", "/api/schema"))
    assert message in unescape(page.text)
    assert message in answer.json()["message"]
    assert answer.status_code in {400, 404}
    # The rest of the page stays.
    assert "ALTER TABLE a ADD COLUMN name" in page.text


def test_links_lead_to_what_each_change_left(pages: httpx.Client) -> None:
    answer = pages.get("/table", params=TABLE)
    assert 'placeholder="a commit timestamp of TiDB, or a time in UTC"' in answer.text
    versions = answer.text.partition('id="versions"')[2]
    links = [unescape(link) for link in re.findall(r'href="table(\?[^"]*)#as-of">as it was then', versions)]
    assert [columns_of(pages, link) for link in links] == [NEW, OLD]
    bands = re.findall(r'href="(\?[^"]*)#as-of"', answer.text.partition('id="as-of"')[0])
    assert [columns_of(pages, unescape(link)) for link in bands] == [OLD, NEW]


def columns_of(pages: httpx.Client, link: str) -> set[str]:
    shown = pages.get(f"/table{link}").text.partition('id="as-of"')[2].partition("<details>")[0]
    return set(re.findall(r'<td><bdi class="name">(.*?)</bdi>', shown))


@pytest.mark.parametrize(("at", "rows"), [(f"{DDL}:rows", 2), (f"{DDL - 1}", 1), (f"{END - 1}", 3)])
def test_rows_are_shown_as_of_a_commit_timestamp(pages: httpx.Client, at: str, rows: int) -> None:
    answer = pages.get("/rows", params={**TABLE, "at": at})
    assert answer.text.count(">history</a>") == rows, answer.text
    assert 'placeholder="a time in UTC, or a commit timestamp of TiDB"' in answer.text
    through = pages.get("/row", params={**TABLE, "key": "1", "at": at})
    assert through.status_code == 200
    assert 'placeholder="a time in UTC, or a commit timestamp of TiDB"' in through.text


def test_rows_older_than_a_column_have_its_default(pages: httpx.Client) -> None:
    assert "all get name = 'new'" in unescape(pages.get("/table", params=TABLE).text)
    shown = unescape(pages.get("/rows", params=TABLE).text)
    assert (shown.count(">'new'<"), shown.count(">'n3'<")) == (2, 1)
    row = pages.get("/row", params={**TABLE, "key": "1"}).text
    assert f"commit-ts {DDL}" in row
    assert "commits.000001" not in row


def test_a_change_of_a_row_is_where_the_folder_has_it(pages: httpx.Client) -> None:
    lines = pages.get("/row", params={**TABLE, "key": "2"}).text.partition("<h2>Its changes</h2>")[2]
    ddl, insert = re.findall(r"<article.*?</article>", lines, re.DOTALL)
    for line in (ddl, insert):
        # Both have the same timestamp: the row was committed before the DDL took effect.
        assert f"commit timestamp <code>{DDL}</code>" in line
    assert f"<bdi>shop/a/{CREATED}/2026-11-27/CDC00000000000000000001.csv, row 2, shop.a, version" in insert
    assert "a TiCDC sink has no statements of clients" in insert
    assert "ALTER TABLE a ADD COLUMN name" in ddl
    assert not re.search("commits.000001|not found|GTID", lines)


def test_a_version_is_of_a_commit(pages: httpx.Client) -> None:
    versions = pages.get("/table", params=TABLE).text.partition('id="versions"')[2].partition("</section>")[0]
    commits = re.findall(r"<dt>commit timestamp</dt><dd><code>(\d+)</code>", versions)
    assert commits == [str(DDL), str(CREATED)]
    times = re.findall(r"<dt>committed</dt><dd>(.*?)</dd>", versions)
    assert times == ["2026-05-01 15:22:05.791 UTC", "2026-05-01 15:22:05.782 UTC"]
    assert not re.search("GTID|executed|commits.000001", versions)


def test_the_first_page_speaks_of_no_server(pages: httpx.Client) -> None:
    card = pages.get("/").text.partition('<section class="card">')[2].partition("</section>")[0]
    assert "tracked up to" in card
    assert not re.search("server|reconcile|commits.000001", card)


def test_the_times_are_there_without_the_lake(tmp_path: Path) -> None:
    world = SinkWorld(tmp_path)
    feed = Feed(world.sink, OLD_VALUES)
    feed.ddl(SinkTable("shop", "a", (), CREATED), CREATED, 3, "CREATE TABLE a (id INT PRIMARY KEY)", (ID,))
    feed.checkpoint(END)
    world.run()
    shutil.rmtree(world.folder / "lake" / "landing")
    with client_of(app_of(lambda: world.settings)) as client:
        answer = client.get("/table", params=TABLE)
    assert answer.status_code == 200
    assert "<dt>committed</dt><dd>2026-05-01 15:22:05.782 UTC</dd>" in answer.text
    assert "commit timestamp</dt>" not in answer.text


def test_the_pages_load_nothing_that_reads_rows() -> None:
    """Until a request needs it: Airflow's web server has them, too."""
    program = "import strata_cdc.serve.app, sys; print({'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
