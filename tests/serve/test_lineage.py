"""What a table comes from: names, copies of tools, partitions; and a change that was taken back stands as two."""

from __future__ import annotations

import re
from html import unescape

import pytest

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import ClosedInterval, IntervalLedger
from tests.schema.streams import SECOND, A, Stream, track
from tests.serve.conftest import SETTINGS, app_of, client_of, settings_of

STATEMENTS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(9))",
    "CREATE TABLE _orders_gho LIKE orders",
    "ALTER TABLE _orders_gho ADD COLUMN note VARCHAR(40)",
    "RENAME TABLE orders TO _orders_del, _orders_gho TO orders",
    "DROP TABLE _orders_del",
    "CREATE TABLE items (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    "CREATE TABLE old_items (id INT PRIMARY KEY)",
    "ALTER TABLE items EXCHANGE PARTITION p0 WITH TABLE old_items",
    "ALTER TABLE items DROP PARTITION p1",
    "CREATE TABLE there_and_back (id INT PRIMARY KEY, a INT)",
    "ALTER TABLE there_and_back MODIFY a BIGINT",
    "ALTER TABLE there_and_back MODIFY a INT",
)
START = 1_700_000_000 * SECOND


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lineage")
    (folder / "settings.toml").write_text(SETTINGS)
    store = SchemaStore(open_store(f"sqlite:///{folder}/store.db"))
    track(store, Stream(), "CREATE DATABASE d", *STATEMENTS)
    IntervalLedger(store.engine).close(ClosedInterval("s", START, START + 9 * SECOND, 0, 9, f"{A}:1-9", START), [])
    with client_of(app_of(lambda: settings_of(store))) as client:
        yield client


def page(client, name):
    answer = client.get("/table", params={"source": "s", "database": "d", "table": name})
    assert answer.status_code == 200, answer.text
    return answer.text


def lanes(html):
    """What stands beside each lane, and the kinds of its bands."""
    drawn = html.partition('class="names"')[2].partition("</dl>")[0]
    names = [" ".join(re.sub(r"<[^>]*>", " ", one).split()) for one in re.findall(r"<dt>(.*?)</dt>", drawn, re.DOTALL)]
    kinds = [re.findall(r'class="band (\w+)"', one) for one in re.findall(r"<dd>(.*?)</dd>", drawn, re.DOTALL)]
    return dict(zip(names, kinds, strict=True))


def test_the_copy_of_a_tool_is_drawn_until_it_takes_the_tables_place(client):
    assert lanes(page(client, "orders")) == {
        "d.orders": ["version", "version"],
        "d._orders_gho gh-ost: became d.orders": ["copy", "copy", "moved"],
    }


def test_statements_on_partitions_are_marks_and_stand_below_with_whose_rows_they_moved(client):
    html = page(client, "items")
    assert lanes(html) == {"partitions": ["partition", "partition"]}
    reported = unescape(re.sub(r"<[^>]*>", " ", html.partition('id="partitions"')[2].partition("</section>")[0]))
    reported = " ".join(reported.split())
    assert reported.index("DROP PARTITION p1") < reported.index("EXCHANGE PARTITION p0")
    assert f"between 2023-11-14 22:13:20 and 2023-11-14 22:13:29 UTC {A}:9 rows of d.old_items" in reported
    assert "in no closed interval yet" in reported
    assert lanes(page(client, "there_and_back")) == {}


def test_a_change_that_was_taken_back_is_two_changes(client):
    html = page(client, "there_and_back")
    assert "<span>3 versions</span>" in html
    shown = unescape(html)
    assert shown.count("<bdi>~ column a: column type int -> bigint<") == 1
    assert shown.count("<bdi>~ column a: column type bigint -> int<") == 1
