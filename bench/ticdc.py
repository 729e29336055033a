"""How fast a TiCDC folder is read: CSV and canal-json to Arrow, by file, in order, and into landed segments.

Run it: `python -m bench ticdc [ROWS]` (default 500,000).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from strata_cdc.changes.port import ChangeBatch
from strata_cdc.ticdc.csv_form import CsvSettings
from strata_cdc.ticdc.cursors import read_rows
from strata_cdc.ticdc.encodings import BinaryForm
from strata_cdc.ticdc.folder import read_contents
from strata_cdc.ticdc.history import SinkHistory
from strata_cdc.ticdc.land_sink import SinkLocation, land_sink
from strata_cdc.ticdc.limits import SinkLimits
from strata_cdc.ticdc.windows import SinkWindows
from tests.ticdc.generator import START, Feed, FeedForm, Row, SinkColumn

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
COLUMNS = (
    SinkColumn("id", "BIGINT", pk=True, nullable=False),
    SinkColumn("customer", "INT"),
    SinkColumn("name", "VARCHAR", precision="40"),
    SinkColumn("price", "DECIMAL", precision="10", scale="2"),
    SinkColumn("made", "DATETIME"),
    SinkColumn("note", "VARCHAR", precision="200"),
)
FORMS = {
    "CSV": FeedForm(),
    "CSV, delimiter of two": FeedForm(delimiter="||"),
    "CSV, no quotes": FeedForm(quote="", delimiter="|"),
    "CSV, old values": FeedForm(old_value=True),
    "canal-json": FeedForm(protocol="canal-json"),
}
OPERATIONS = "IIUD"
ROWS_OF_A_COMMIT = 10


def rows(count: int) -> list[Row]:
    """Changes like those of a shop."""
    found = []
    for at in range(count):
        image = {"id": at, "customer": at % 997, "name": f"customer {at % 997}", "price": f"{at % 1000}.25"}
        image |= {"made": "2026-11-27 10:11:12", "note": f"a note about the order {at}, with some words in it"}
        op = OPERATIONS[at % 4]
        ts = START + 1 + at // ROWS_OF_A_COMMIT
        found.append(Row(ts, None if op == "D" else image, None if op == "I" else image))
    return found


def least(work: Callable[[], int]) -> tuple[float, int]:
    """The least processor time of some rounds, in seconds; and what the work returned."""
    best, result = float("inf"), 0
    for _ in range(ROUNDS):
        begin = time.process_time()
        result = work()
        best = min(best, time.process_time() - begin)
    return best, result


def main(arguments: list[str]) -> None:
    """Prints the speed of each form on one core."""
    count = int(arguments[0]) if arguments else 500_000
    changes = rows(count)
    for name, form in FORMS.items():
        with tempfile.TemporaryDirectory() as folder:
            measure(name, form, changes, folder)


def measure(name: str, form: FeedForm, changes: list[Row], folder: str) -> None:
    """Prints the speed of one form."""
    feed = Feed(Path(folder), form)
    table = feed.table("orders", COLUMNS)
    path = feed.write(table, changes)
    feed.checkpoint(changes[-1].ts + 1)
    settings = settings_of(form)
    contents = read_contents(folder)
    history = SinkHistory.from_files(contents.schema_files)
    version = history.version("shop/orders", START)
    file = contents.sequences[0].files[0]
    size, held = path.stat().st_size / 1e6, [0]

    def to_arrow() -> int:
        return sum(batch.num_rows for batch in read_rows(file, version, settings, SinkLimits().block_bytes))

    def in_order() -> int:
        windows = SinkWindows(contents, history, settings).windows()
        count = 0
        for window in windows:
            count += sum(part.batch.num_rows for part in window.rows if isinstance(part, ChangeBatch))
            held.append(pa.total_allocated_bytes())
        return count

    def land() -> int:
        with tempfile.TemporaryDirectory() as lake:
            return land_sink(SinkLocation(folder, lake, "bench", settings)).transactions * ROWS_OF_A_COMMIT

    for what, work in (("to Arrow", to_arrow), ("in order, once", in_order), ("landed", land)):
        seconds, read = least(work)
        print(f"{name:24}{what:16}{size / seconds:7.0f} MB/s {read / seconds / 1e6:6.2f} M rows/s  ({size:.0f} MB)")
    print(f"{'':24}most of Arrow's memory: {max(held) / 1e6:.0f} MB")


def settings_of(form: FeedForm) -> CsvSettings:
    """What the files do not show."""
    return CsvSettings(form.null, BinaryForm(form.binary), "UTC")


if __name__ == "__main__":
    main(sys.argv[1:])
