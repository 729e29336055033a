"""`strata retain`: deletes landed segments that the settings do not keep and that nothing needs any more.
Not here: which those are (`pipeline/housekeep/retain_landed.py`)."""

from __future__ import annotations

import typer

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.clock import now_micros
from strata_cdc.values import to_plain


def retain(context: typer.Context, source: SourceName = None) -> None:
    """Deletes landed segments beyond `keep_days` and `keep_gb` whose rows are all published, and lists them."""
    from strata_cdc.lake.known_lake import known_if_stored
    from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
    from strata_cdc.store.database import OnMissing, open_store

    configured = known_if_stored(source_of(source))
    report = retain_landed(configured, open_store(configured.store_url, OnMissing.EMPTY), now=now_micros())
    if not context.obj["json"]:
        for segment in report.segments:
            typer.echo(
                f"deleted {segment.segment}: transactions {segment.first_seq} to {segment.last_seq}, "
                f"{segment.bytes:,} bytes"
            )
    rest = to_plain(report) if context.obj["json"] else {**to_plain(report), "segments": len(report.segments)}
    print_report(rest, as_json=context.obj["json"])
