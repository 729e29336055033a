"""How fast DDL becomes versions, how fast versions are found again, and what they take on disk.

Run it: `python -m bench.history [VERSIONS] [TABLES] [STORE_URL]` (defaults 100,000 versions, 10,000 tables, SQLite).
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtGtidSet, AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.database import open_store
from tests.schema.streams import A, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKUPS = 2000


def statements(versions: int, tables: int) -> Iterator[str]:
    """Tables of ten columns, then columns that come and go."""
    columns = ", ".join(f"c{number} varchar(20)" for number in range(9))
    yield "CREATE DATABASE d"
    for table in range(tables):
        yield f"CREATE TABLE t{table} (id int PRIMARY KEY, {columns})"
    for number in range(versions - tables):
        table, round_ = number % tables, number // tables
        yield f"ALTER TABLE t{table} " + (f"ADD x{round_} int" if round_ % 2 == 0 else f"DROP COLUMN x{round_ - 1}")


def timed(work: object) -> float:
    """Seconds that a call takes."""
    assert callable(work)
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(versions: int, tables: int, url: str) -> dict[str, float | int | str]:
    """Fills the store, then asks it as strangers do."""
    store = SchemaStore(open_store(url))
    tracker, stream = Tracker(store, "bench"), Stream()
    begin = time.perf_counter()
    tracker.begin_file(stream.start())
    for sql in statements(versions, tables):
        tracker.track(stream.transaction(sql))
    tracker.end_file(stream.position)
    report = tracker.finish()
    tracking = time.perf_counter() - begin
    rng = random.Random(7)  # the same questions each time
    names = [TableName("d", f"t{number}") for number in rng.sample(range(tables), min(tables, 200))]
    seqs = [rng.randrange(tables + 1, report.seq) for _ in range(LOOKUPS)]

    first = [timed(lambda name=name: cold(url, name, report.seq)) for name in names[:20]]
    history = History(store, "bench")
    next_table = [timed(lambda name=name: history.at(name, AtSeq(report.seq))) for name in names]
    warm = timed(lambda: [history.at(rng.choice(names), AtSeq(seq)) for seq in seqs])
    sets = [AtGtidSet(GtidSet.parse(f"{A}:1-{seq}")) for seq in seqs]
    by_set = timed(lambda: [history.at(rng.choice(names), point) for point in sets])
    return {
        "store": url.split(":", maxsplit=1)[0],
        "versions": report.versions,
        "tables": tables,
        "statements_per_second": round(versions / tracking),
        "first_lookup_ms": round(statistics.median(first) * 1000, 2),
        "first_lookup_worst_ms": round(max(first) * 1000, 2),
        "first_lookup_of_a_table_ms": round(statistics.median(next_table) * 1000, 3),
        "warm_lookup_ms": round(warm / LOOKUPS * 1000, 4),
        "warm_lookup_by_gtid_set_ms": round(by_set / LOOKUPS * 1000, 4),
        "all_tables_at_a_position_s": round(timed(lambda: list(history.tables(AtSeq(seqs[0])))), 2),
        "megabytes": round(Path(url.removeprefix("sqlite:///")).stat().st_size / 1e6, 1) if "sqlite" in url else -1,
    }


def cold(url: str, name: TableName, seq: int) -> None:
    """A process' first question: open the store, ask once."""
    engine = open_store(url)
    History(SchemaStore(engine), "bench").at(name, AtSeq(seq))
    engine.dispose()


def main(arguments: list[str]) -> None:
    """Prints one JSON object."""
    versions, tables = (int(arguments[0]) if arguments else 100_000), (int(arguments[1]) if arguments[1:] else 10_000)
    with tempfile.TemporaryDirectory(prefix="strata-bench-") as folder:
        url = arguments[2] if arguments[2:] else f"sqlite:///{folder}/store.db"
        print(json.dumps(measure(versions, tables, url)))


if __name__ == "__main__":
    main(sys.argv[1:])
