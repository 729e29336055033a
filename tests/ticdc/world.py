"""A sink as a source of runs: settings, runs in this process, and what the change tables then have.
Not here: writing sinks (`generator.py`)."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cli.engine_steps import EngineSteps
from strata_cdc.cli.main import run
from strata_cdc.config.settings import load_settings
from strata_cdc.files.storage import write_file
from strata_cdc.pipeline.run_source import SourceRequest, run_source
from strata_cdc.tables.read import read_changes
from tests.published import published_tables
from tests.ticdc.generator import FeedForm, SinkColumn

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.pipeline.run_source import WholeReport

ID = SinkColumn("id", pk=True, nullable=False)
NAME = SinkColumn("name", "VARCHAR", precision="20")
OLD_VALUES = FeedForm(old_value=True)


def named(key: int, **more: Any) -> dict[str, Any]:
    """A row with these two columns, and others."""
    return {"id": key, "name": f"n{key}", **more}


class Silent:
    """A watcher that tells nobody."""

    def begin(self, step: str) -> None:
        """Nothing."""

    def landed(self, progress: Any) -> None:
        """Nothing."""

    def end(self, step: str, summary: str) -> None:
        """Nothing."""


@dataclass
class SinkWorld:
    """A source `s`: the folder `sink` below `folder`, with a lake and a store beside it."""

    folder: Path
    more: str = 'time_zone = "UTC"'
    """More settings of the source."""
    url: str = "sink"
    """Of the folder that is landed; another one is a copy of `sink`."""
    lake: str = ""

    @property
    def sink(self) -> Path:
        return self.folder / "sink"

    @property
    def settings_file(self) -> Path:
        path = self.folder / "strata.toml"
        path.write_text(
            f'lake = "{self.lake or "lake"}"\n[sources.s]\nkind = "ticdc"\nurl = "{self.url}"\n'
            f'store = "sqlite:///store.db"\n{self.more}\n'
        )
        return path

    @property
    def settings(self) -> Settings:
        return load_settings({"STRATA_SETTINGS": str(self.settings_file)})

    @property
    def source(self) -> Source:
        return self.settings.source("s")

    def copy(self) -> None:
        """Copies the sink to its URL, as it is now."""
        for path in sorted(self.sink.rglob("*")):
            if path.is_file():
                write_file(f"{self.url}/{path.relative_to(self.sink)}", path.read_bytes())

    def run(self, **request: Any) -> WholeReport:
        """All that is pending; fails if something is withheld."""
        settings = self.settings
        report = run_source(
            SourceRequest("s", **request), EngineSteps(settings.source("s")), Silent(), settings=settings
        )
        report.raise_if_withheld()
        return report

    def strata(self, *words: str) -> CompletedProcess[str]:
        """A command as a person gives it, in this process: another one takes most of a second to start."""
        out, err = (TextIOWrapper(BytesIO()) for _ in range(2))
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.setenv("STRATA_SETTINGS", str(self.settings_file))
            code = run(words)
        printed = []
        for stream in (out, err):
            stream.seek(0)
            printed.append(stream.read())
        return CompletedProcess(words, code, *printed)

    def changes(self, table: str | None = None) -> list[tuple[str, str, Any, Any]]:
        """The published changes in order: table, operation, and the images before and after."""
        lake = self.settings.lake
        found = []
        for name in published_tables(lake, "s"):
            if table is None or str(name) == table:
                rows = read_changes(lake, "s", name).to_pylist()
                found += [(row["_seq"], row["_row"], str(name), row) for row in rows]
        return [(name, *_images(row)) for *_, name, row in sorted(found, key=lambda one: one[:3])]


def _images(row: dict[str, Any]) -> tuple[str, Any, Any]:
    after = {name: value for name, value in row.items() if not name.startswith("_")}
    return row["_op"], row["_before"], None if row["_op"] == "delete" else after
