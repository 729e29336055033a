"""Which interval was published last, beside the change tables: a store that does not know it is older than the lake,
as after the restoration of a backup, and would cut and publish the same transactions once more, in other intervals.
Not here: a lake that is older than its store (`known_lake.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.clock import from_micros, now_micros
from strata_cdc.errors import OlderStoreError
from strata_cdc.files.storage import read_file, write_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.tables.layout import changes_url

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source

FILE: Final = "published.json"
FORMAT: Final = 1
_REMEDY: Final = "Restore the file from a backup of the lake; without one, delete it: the next run writes it again."


class NewestPublished(Struct, frozen=True):
    """The latest interval of which a run has published anything."""

    interval: int
    """Its start, microseconds UTC."""
    run: str
    at: int
    """When the run began to publish, microseconds UTC."""
    format: int = FORMAT


def note_published(lake: str, source: str, interval: int, run: str) -> None:
    """Stores that a run publishes an interval, which is in the store already; called before the first commit.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: What is there is not what was written.
    """
    before = read_published(lake, source)
    if before is None or before.interval < interval:
        write_file(_url(lake, source), msgspec.json.encode(NewestPublished(interval, run, now_micros())))


def read_published(lake: str, source: str) -> NewestPublished | None:
    """What is stored of it; None if no run has since there is such a file.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: It is not what was written.
    """
    content = read_file(_url(lake, source))
    if content is None:
        return None
    return decode_stored(content, NewestPublished, newest=FORMAT, file=_url(lake, source), remedy=_REMEDY)


def require_newest(source: Source, engine: sa.Engine) -> None:
    """Checks that a store knows what was last published to its lake.

    Raises:
        OlderStoreError: It does not.
        StrataError: The lake or the store does not answer.
    """
    newest = read_published(source.lake, source.name)
    if newest is None or IntervalLedger(engine).at(source.name, newest.interval) is not None:
        return
    last = IntervalLedger(engine).last(source.name)
    reached = "no interval" if last is None else f"intervals up to {from_micros(last.end)}"
    raise OlderStoreError(
        f"the store is older than the lake {source.lake}: on {from_micros(newest.at)} a run published the interval of "
        f"{from_micros(newest.interval)} there, and the store knows {reached}",
        source=source.name,
        file=_url(source.lake, source.name),
        remedy="Restore the newest backup of the store, or the lake of the same time as this store; then run "
        '`strata doctor`. Is there neither, the landed segments are enough: docs/runbook.md, "The store is lost".',
    )


def _url(lake: str, source: str) -> str:
    return f"{changes_url(lake, source)}/{FILE}"
