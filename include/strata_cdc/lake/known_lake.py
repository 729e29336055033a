"""Whether a lake belongs to a source's store, checked by every command that writes: rows that were published
to another lake would never be published in this one.
Not here: rebuilding a lake (`rebuild.py`), what the store keeps (`store/lakes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from strata_cdc.binlog.bytes.segment import SegmentForm
from strata_cdc.clock import now_micros
from strata_cdc.errors import OtherLakeError
from strata_cdc.files.storage import list_folders, read_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.lake.newest_published import require_newest
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import find_store, open_store
from strata_cdc.store.full_names import split_full_name
from strata_cdc.store.lakes import LakeLedger
from strata_cdc.tables.layout import changes_url
from strata_cdc.tables.lost import find_lost, newest_commits

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.store.lakes import KnownLake

FILE: Final = "lake.json"
"""Beside the landed segments of a source, so that it is copied, restored and lost with them."""
FORMAT: Final = 1


class LakeMark(Struct, frozen=True):
    """What a lake stores about itself."""

    lake: str
    """Its id, for one source."""
    source: str
    is_sink: bool = False
    """Whether the source was the folder of a TiCDC sink."""
    format: int = FORMAT


def known_store(source: Source) -> sa.Engine:
    """The store of a source, made if it is missing, once it is sure that it is that of the source's lake.

    The first command that uses both stores in each of them that they belong together.

    Raises:
        OtherLakeError: The lake is another one, was lost, or lacks what the store calls published; or the store is an
            older copy that does not know what was published.
        SourceSettingsError: What has landed is of the other kind of source.
        StrataError: The lake or the store does not answer.
    """
    engine = open_store(source.store_url)
    require_known(source, engine)
    return engine


def known_if_stored(source: Source) -> Source:
    """The source, checked as by `known_store`, for callers that make no store: without a store there is nothing to
    check but the kind of what has landed."""
    engine = find_store(source.store_url)
    if engine is None:
        _stream(source)
    else:
        require_known(source, engine)
    return source


def require_known(source: Source, engine: sa.Engine) -> None:
    """As `known_store`, of a store that is open."""
    known = LakeLedger(engine).get(source.name)
    if known is None or not known.is_written:
        _make_known(source, engine, known)
        return
    mark = _read_mark(source)
    if mark is None or mark.lake != known.lake:
        raise _other(source, None if mark is None else mark.lake)
    if mark.is_sink != source.is_sink:
        # The mark has it, so that segments need not be listed each time.
        _stream(source)
        write_mark(source, engine, known.lake)
    require_newest(source, engine)
    _require_published(source, engine)


def read_mark(source: Source) -> str | None:
    """The id that the lake has for a source; None if it has none.

    Raises:
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: It is not what was written.
    """
    mark = _read_mark(source)
    return None if mark is None else mark.lake


def _read_mark(source: Source) -> LakeMark | None:
    folder = landing_folder(source.lake, source.name)
    content = read_file(folder.join(FILE))
    if content is None:
        return None
    remedy = "Restore the file from a backup of the lake; `strata lake show` has the id that the store knows."
    return decode_stored(content, LakeMark, newest=FORMAT, file=folder.join(FILE), remedy=remedy)


def write_mark(source: Source, engine: sa.Engine, lake: str) -> None:
    """Writes the store's id into the lake. If it is killed in between, the next command does so again."""
    content = msgspec.json.encode(LakeMark(lake, source.name, source.is_sink))
    landing_folder(source.lake, source.name).write(FILE, content)
    LakeLedger(engine).note_written(source.name, lake)


def _make_known(source: Source, engine: sa.Engine, known: KnownLake | None) -> None:
    """The first use of both; or a first use that was killed, whose id is in the store."""
    mark, stream = read_mark(source), _stream(source)
    if known is None:
        ledger = LakeLedger(engine)
        if ledger.reached_seq(source.name) > stream.last_seq:
            raise _other(source, mark)
        _require_published(source, engine)
        if mark is not None and not ledger.reached_seq(source.name) and has_tables(source):
            raise OtherLakeError(
                f"the lake {source.lake} has tables of another store, and this store knows nothing of them: what is "
                "published there would be published once more",
                source=source.name,
                remedy="Let `store` of the settings name the store that it was published with, or restore that from a "
                "backup; or use another lake or source name.",
            )
        known = ledger.begin(source.name, mark or str(uuid4()), now=now_micros())
    if known is not None:
        write_mark(source, engine, known.lake)


def _stream(source: Source) -> LandedStream:
    """What has landed, which must be of the source's kind."""
    stream = LandedStream.open(source.lake, source.name)
    stream.require_form(SegmentForm.ROWS if source.is_sink else SegmentForm.BINLOG)
    return stream


def has_tables(source: Source) -> bool:
    """Whether the lake has change tables of a source."""
    return bool(list_folders(changes_url(source.lake, source.name)))


def _require_published(source: Source, engine: sa.Engine) -> None:
    """Whether a table of the newest published interval is there: a lake is copied, lost and restored as a whole, so one
    table shows it for all. If only some tables lack something, and all that was tracked has landed, the others
    continue."""
    newest = LakeLedger(engine).last_published(source.name)
    name = None if newest is None else split_full_name(newest[0])
    if newest is None or name is None or not any(find_lost(source.lake, source.name, {TableName(*name): newest[1]})):
        return
    known = newest_commits(source.name, engine)
    lost = list(find_lost(source.lake, source.name, known))
    stream = LandedStream.open(source.lake, source.name)
    if lost and (len(lost) == len(known) or LakeLedger(engine).reached_seq(source.name) > stream.last_seq):
        raise OtherLakeError(
            f"the lake {source.lake} is another lake, or an older copy of this one: {lost[0].message}",
            source=source.name,
            table=newest[0],
            remedy=_REMEDY.format(source=source.name),
        )


_REMEDY = (
    "Let `lake` of the settings name the folder that it was, or restore that from a backup. If it is lost, "
    "`strata lake show --source {source}` says what of it comes again and what cannot."
)


def _other(source: Source, mark: str | None) -> OtherLakeError:
    what = "has nothing of this source" if mark is None else "belongs to another store"
    return OtherLakeError(
        f"the lake {source.lake} does not belong to this store: it {what}",
        source=source.name,
        remedy=_REMEDY.format(source=source.name),
    )
