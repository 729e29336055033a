"""A source on a real server, with all that a run does of it in this process.
Not here: what is compared (the tests beside this file)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.config.settings import Settings, load_settings
from strata_cdc.pipeline import comparisons, ingest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.quality.reconcile.catch_up import catch_up
from strata_cdc.quality.reconcile.reading import ComparisonRequest
from strata_cdc.quality.reconcile.reconcile_source import reconcile_source
from strata_cdc.quality.reconcile.server_rows import Pace
from strata_cdc.quality.reconcile.verify_changes import verify_changes
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder, write_verdicts
from strata_cdc.runs.verdict import IntervalVerdict, TableVerdict, staged_digest
from strata_cdc.store.database import open_store
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.quality.reconcile.report import TableReport
    from strata_cdc.runs.specs import PlanReport
    from tests.mysql_server import MysqlServer

HELD_BYTES = 2000
"""That are compared in memory where a table is treated as a large one."""


@dataclass
class LiveWorld:
    """One source; its store is a file."""

    server: MysqlServer
    folder: Path
    database: str = "shop"
    more: str = ""
    """Further settings."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "strata.toml"
        self.file.write_text(
            f'lake = "{self.folder}/lake"\nstore = "sqlite:///{self.folder}/s.db"\n[sources.s]\nconnection = "x"\n'
            f'tables = ["{self.database}.*"]\nreconcile_pause_ms = 0\n{self.more}\n'
        )
        self.lake = f"{self.folder}/lake"

    @property
    def environment(self) -> dict[str, str]:
        return {"STRATA_SETTINGS": str(self.file), "AIRFLOW_CONN_X": self.server.url}

    @property
    def settings(self) -> Settings:
        return load_settings(self.environment)

    def sql(self, text: str) -> None:
        self.server.run_sql(text, self.database)

    def run(self) -> None:
        """All that `strata run` does, with a check that finds nothing."""
        ingest.land("s", settings=self.settings)
        ingest.track("s", settings=self.settings)
        report = ingest.plan("s", None, None, settings=self.settings)
        if report.slices:
            files = [file for task in planned_tasks(report.run_url) for file in decode_slice_to_files(task)]
            store_decoded(report.run_url, files)
            self._check(report)
        ingest.publish("s", report.run, settings=self.settings)

    def discard(self, table: str) -> None:
        """Does without the changes of a table that are not published yet."""
        ingest.land("s", settings=self.settings)
        ingest.track("s", settings=self.settings)
        ingest.plan("s", None, None, settings=self.settings)
        ledger = TableIntervalLedger(open_store(self.settings.source("s").store_url))
        owed = ledger.select("s", (IntervalState.PENDING,), table=(self.database, table))
        assert owed
        ledger.put([replace(piece, state=IntervalState.DISCARDED) for piece in owed])

    def _check(self, report: PlanReport) -> None:
        folder = run_folder(self.lake, "s", report.run)
        plan, decoded = read_plan(folder), read_decoded(folder)
        verdicts = []
        for interval in plan.intervals:
            files = decoded.publishable(interval.start)
            tables = tuple(TableVerdict(one.name, one.rows, (1,), 1, ()) for one in plan.of_interval(interval))
            digest = staged_digest((str(file.name), file.digest) for file in files)
            verdicts.append(IntervalVerdict("s", interval.start, digest, tables))
        write_verdicts(folder, verdicts)

    def reconcile(self, *tables: str, keys: int | None = None) -> dict[str, TableReport]:
        """What is said of each table, by its name without the database."""
        report = comparisons.reconcile("s", settings=self.settings, tables=tables, keys=keys)
        return {one.table.partition(".")[2]: one for one in report.tables}

    def in_parts(self, table: str) -> TableReport:
        """The same by files, as if the table was large."""
        pace = Pace(self.settings.source("s").settings.reconcile_rows)
        return self.compared(ComparisonRequest((f"{self.database}.{table}",), held_bytes=HELD_BYTES, pace=pace))[table]

    def compared(self, wanted: ComparisonRequest) -> dict[str, TableReport]:
        """As `reconcile`, with limits that no setting has."""
        found = self.settings.source("s")
        land, track = (partial(step, "s", settings=self.settings) for step in (ingest.land_binlogs, ingest.track))
        bring = partial(catch_up, found, land=land, track=track, seconds=60)
        report = reconcile_source(found, open_store(found.store_url), wanted, catch_up=bring)
        return {one.table.partition(".")[2]: one for one in report.tables}

    def verified_in_parts(self, *tables: str) -> dict[str, TableReport]:
        """Change tables verified by themselves, as if they were large."""
        found = self.settings.source("s")
        report = verify_changes(found, open_store(found.store_url), ComparisonRequest(tables, held_bytes=HELD_BYTES))
        return {one.table.partition(".")[2]: one for one in report.tables}

    def said(self, table: str, **options: Any) -> TableReport:
        """What is said of one table."""
        return self.reconcile(f"{self.database}.{table}", **options)[table]
