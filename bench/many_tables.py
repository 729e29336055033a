"""What one interval costs of a source with 20,000 tables of which 2,000 changed: each step, in this process.

Run it: `python -m bench many_tables [TABLES] [CHANGED]` (defaults 20,000 and 2,000); the binlogs are made here.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.config.settings import load_settings
from strata_cdc.landing.land_files import land_files
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.pipeline.plan.pending import WorkChoice
from strata_cdc.progress.compared import compared_line
from strata_cdc.quality.check_step.check_interval import check_here
from strata_cdc.store.database import open_store
from strata_cdc.tracking.track_schema import track_landed
from tests.binlog.binlogs import SERVER, Binlog

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN_SECONDS = 1_790_000_000
ROWS = 5


class _Source:
    """A source whose binlogs are written here."""

    def __init__(self, folder: Path) -> None:
        self._archive, self._gno, self._files = folder / "archive", 0, 0
        self._archive.mkdir()
        path = folder / "strata.toml"
        path.write_text(
            f'lake = "{folder}/lake"\nstore = "sqlite:///{folder}/s.db"\n[sources.shop]\nconnection = "x"\n'
        )
        self.settings = load_settings({"STRATA_SETTINGS": str(path), "AIRFLOW_CONN_X": "mysql://u@127.0.0.1/"})
        self.source = self.settings.source("shop")
        self.engine = open_store(self.source.store_url)

    def write(self, statements: list[str], tables: range) -> None:
        """A file with DDL, and a transaction of some rows for each table."""
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{self._gno}" if self._gno else "")
        for text in statements:
            self._begin(binlog)
            binlog.query(text)
        for number in tables:
            self._begin(binlog)
            binlog.query("BEGIN")
            binlog.table_map(number + 1, table=f"t{number}")
            binlog.write(list(range(ROWS)), number + 1)
            binlog.xid()
        self._files += 1
        binlog.event(4, (4).to_bytes(8, "little") + f"binlog.{self._files + 1:06}".encode())
        (self._archive / f"binlog.{self._files:06}").write_bytes(bytes(binlog.data))

    def _begin(self, binlog: Binlog) -> None:
        self._gno += 1
        binlog.gtid(self._gno, micros=(BEGIN_SECONDS + self._gno) * 1_000_000)

    def run(self) -> dict[str, list[float]]:
        """CPU and clock seconds of each step."""
        found: dict[str, list[float]] = {}
        settings, source = self.settings, self.source
        engine = EngineSettings(Engine.LOCAL)

        def timed(name: str, step: Callable[[], Any]) -> Any:
            begin, used = time.perf_counter(), time.process_time()
            report = step()
            found[name] = [time.process_time() - used, time.perf_counter() - begin]
            return report

        timed("land", lambda: land_files(str(self._archive), lake=source.lake, source="shop"))
        timed("track", lambda: track_landed(source.lake, "shop", self.engine))
        planned = timed("plan", lambda: ingest.plan("shop", None, None, settings=settings, choice=WorkChoice.PENDING))
        if planned.slices:
            timed("decode", lambda: decode_here(planned.run_url, engine))
            timed("check", lambda: check_here(planned.run_url, None, source.settings.compare_keys))
            report = timed("publish", lambda: ingest.publish("shop", planned.run, settings=settings))
            assert not report.withheld, report.withheld
        timed("housekeep", lambda: ingest.housekeep("shop", settings=settings))
        timed("compared with the server", lambda: compared_line(source))
        return found


def main(arguments: list[str]) -> None:
    """Prints the steps of the first changes of each table, which make their change tables, and of those after them."""
    tables = int(arguments[0]) if arguments else 20_000
    changed = int(arguments[1]) if arguments[1:] else 2_000
    with tempfile.TemporaryDirectory(prefix="strata-many-") as text:
        source = _Source(Path(text))
        source.write(["CREATE DATABASE d", *(f"CREATE TABLE t{number} (id INT)" for number in range(tables))], range(0))
        rounds = {"nothing, 20,000 CREATE TABLE": source.run()}
        for name in ("first rows", "more rows"):
            source.write([], range(changed))
            rounds[name] = source.run()
        for name, found in rounds.items():
            total = [sum(one[at] for one in found.values()) for at in (0, 1)]
            print(f"\n{name}: {total[0]:.1f} s CPU, {total[1]:.1f} s by the clock")
            for step, (cpu, clock) in found.items():
                print(f"    {step:28}{cpu:8.2f}{clock:8.2f}")
        print(f"\npeak of this process: {psutil.Process().memory_info().rss / 1e6:,.0f} MB at the end")


if __name__ == "__main__":
    main(sys.argv[1:])
