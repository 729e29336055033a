"""`strata snapshot`: reads the live schema at one GTID set, for the tracker.
Not here: reading it (`schema/live/engine.py`), what the tracker makes of it (`tracking/track_schema.py`)."""

from __future__ import annotations

import os

import typer

from strata_cdc.cli.options import SourceName
from strata_cdc.cli.report import print_report
from strata_cdc.config.settings import load_settings


def snapshot(context: typer.Context, source: SourceName = None) -> None:
    """Reads every table's schema from the server; the next `track` uses it to begin, to close gaps, to find drift."""
    from strata_cdc.pipeline import ingest

    settings = load_settings(os.environ)
    report = ingest.snapshot(settings.source_name(source), settings=settings)
    print_report(report, as_json=context.obj["json"])
