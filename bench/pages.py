"""How long a page takes, over HTTP, of a source with many tables and versions.

Run it: `python -m bench.pages [VERSIONS] [TABLES] [STORE_URL]` (defaults 100,000 versions, 10,000 tables, SQLite).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from bench.history import statements
from strata_cdc.config.settings import load_settings
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.database import open_store
from strata_cdc.store.ledgers import ClosedInterval, IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableInterval
from tests.schema.streams import SECOND, A, Stream
from tests.serve.conftest import app_of, client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

ROUNDS = 25
SPAN = 300 * SECOND
SETTINGS = 'lake = "{folder}/lake"\nstore = "{url}"\n[sources.s]\nconnection = "c"\n'


def fill(url: str, versions: int, tables: int) -> None:
    """A store with that history, and intervals of five minutes with rows of a table in ten."""
    store = SchemaStore(open_store(url))
    tracker, stream = Tracker(store, "s"), Stream()
    tracker.begin_file(stream.start())
    for sql in statements(versions, tables):
        tracker.track(stream.transaction(sql))
    tracker.end_file(stream.position)
    tracker.finish()
    first = Stream().time
    for number in range((stream.time - first) // SPAN):
        start = first + number * SPAN
        names = [f"t{table}" for table in range(number % 10, tables, max(tables // 100, 1))]
        entries = [TableInterval("s", start, "d", name, 7, IntervalState.PUBLISHED, published_rows=7) for name in names]
        closed = ClosedInterval("s", start, start + SPAN, number * 300, number * 300 + 300, f"{A}:1-{number}", start)
        IntervalLedger(store.engine).close(closed, entries)


def pages(tables: int) -> Iterator[tuple[str, str]]:
    """What each is, and its path."""
    table = f"source=s&database=d&table=t{tables // 2}"
    yield "first page", "/"
    yield "tables", "/tables?source=s"
    yield "tables behind one", f"/tables?source=s&after_database=d&after_table=t{tables // 2}"
    yield "tables by name", "/tables?source=s&containing=77"
    yield "table", f"/table?{table}"
    yield "table at a time", f"/table?{table}&at=2023-11-15"
    yield "search", "/search?source=s&text=t77"
    yield "search in statements", "/search?source=s&text=drop column x3"
    for what, term in (("one letter", "t"), ("rare", "zzzz"), ("not ASCII", "é"), ("hostile", "%_'<script>")):
        yield f"search, {what}", f"/search?source=s&text={quote(term)}"
    yield "checks", "/verdicts?source=s"


def seconds(client: httpx.Client, path: str) -> float:
    """Of one answer, from a browser's view."""
    begin = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - begin


def main(arguments: list[str]) -> None:
    """Prints a table: milliseconds of the median answer and of the slowest, bytes."""
    versions, tables = (int(arguments[0]) if arguments else 100_000), (int(arguments[1]) if arguments[1:] else 10_000)
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as name:
        folder = Path(name)
        url = arguments[2] if arguments[2:] else f"sqlite:///{folder}/store.db"
        (folder / "settings.toml").write_text(SETTINGS.format(folder=folder, url=url))
        fill(url, versions, tables)
        environment = {
            "STRATA_SETTINGS": str(folder / "settings.toml"),
            "AIRFLOW_CONN_C": "mysql://u@127.0.0.1:1/",
        }
        app = app_of(lambda: load_settings(environment))  # type: ignore[no-untyped-call]  # tests name no types
        with client_of(app) as client:
            print(f"\nPages of {tables:,} tables and {versions:,} versions\n{'':24}{'ms':>8}{'most':>8}{'KB':>8}")
            for what, path in pages(tables):
                size = len(client.get(path).raise_for_status().content)
                found = [seconds(client, path) * 1000 for _ in range(ROUNDS)]
                print(f"{what:24}{statistics.median(found):8.0f}{max(found):8.0f}{size / 1000:8.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
