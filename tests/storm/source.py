"""The source of a storm: what the product does of it, step by step, killed before any of its writes.
Not here: who writes to its server (`workload.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.config.settings import Settings, load_settings
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.dump_source import dump_source
from strata_cdc.pipeline.run_source import SourceRequest, run_source
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.patterns import matches
from strata_cdc.store.database import open_store
from tests.pipeline.owed_world import Died, dying_before_write

if TYPE_CHECKING:
    from pathlib import Path

    import sqlalchemy as sa

    from strata_cdc.landing.land_state import LandProgress
    from strata_cdc.mirrors.follow.update_mirrors import MirrorReport
    from strata_cdc.pipeline.run_source import WholeReport
    from tests.mysql_server import MysqlServer

NAME = "s"
WRITES = 150
"""A run has about so many writes; a death that would come later is none."""


class Unwatched:
    """Nobody is told how far a run has come."""

    def begin(self, step: str) -> None:
        """A step begins."""

    def landed(self, progress: LandProgress) -> None:
        """So much has landed."""

    def end(self, step: str, said: str) -> None:
        """A step is done."""


class StormSource:
    """One source whose lake and store are files."""

    def __init__(self, server: MysqlServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.lake = f"{folder}/lake"
        self.kills = self.runs = 0
        self.mirror()

    def mirror(self, *patterns: str) -> None:
        """From now on these tables have mirrors."""
        self._patterns = patterns
        (self.folder / "strata.toml").write_text(
            f'lake = "{self.lake}"\nstore = "sqlite:///{self.folder}/store.db"\n[sources.{NAME}]\nconnection = "x"\n'
            f'tables = ["shop.*"]\nmirrors = {list(patterns)}\nreconcile_pause_ms = 0\n'.replace("'", '"')
        )

    def is_mirrored(self, table: str) -> bool:
        """Whether a table of the shop is to have a mirror by now."""
        return matches(TableName("shop", table), self._patterns, folded=False)

    @property
    def settings(self) -> Settings:
        file = str(self.folder / "strata.toml")
        return load_settings({"STRATA_SETTINGS": file, "AIRFLOW_CONN_X": self.server.url})

    @property
    def engine(self) -> sa.Engine:
        """Its store."""
        return open_store(self.settings.source(NAME).store_url)

    def run(self) -> WholeReport:
        """All that `strata run` does; checks that fail are errors."""
        self.runs += 1
        settings = self.settings
        report = run_source(SourceRequest(NAME), EngineSteps(settings.source(NAME)), Unwatched(), settings=settings)
        report.raise_if_withheld()
        return report

    def run_killed(self, before: int) -> None:
        """The same, dead before its write of this number, if it has so many."""
        with suppress(Died), dying_before_write(before):
            self.run()
            return
        self.kills += 1

    def snapshot(self) -> None:
        """The schemas as they are now, as every hour."""
        ingest.snapshot(NAME, settings=self.settings)

    def dump(self, *patterns: str) -> None:
        """Rows read from the server, whoever writes to it meanwhile."""
        dump_source(NAME, patterns, settings=self.settings, parallel=1)

    def mirrors(self) -> MirrorReport:
        """Where each mirror stands."""
        return ingest.mirror(NAME, settings=self.settings)
