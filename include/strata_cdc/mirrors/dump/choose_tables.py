"""Which tables to dump: the requested ones, or those whose rows from before the stream are in no mirror.
Not here: dumping them (`dump_tables.py`), which tables are decoded (`selection/wanted.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DamagedFileError, SchemaGapError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.schema.model.engines import discards_rows
from strata_cdc.schema.model.patterns import matches, unmatched
from strata_cdc.selection.wanted import NAMES_OF_TABLES, folds_names, known_tables, no_match
from strata_cdc.store.read_again import ReadAgainLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName


def tables_to_dump(
    source: Source,
    engine: sa.Engine,
    patterns: Sequence[str] = (),
    is_wrong: Callable[[Mirror], bool] = lambda mirror: mirror.diverged is not None,
) -> list[TableName]:
    """The tables to dump, by name.

    Args:
        source: The source.
        engine: Its store.
        patterns: Tables that match a pattern are dumped, with or without a mirror. Without patterns: the tables of the
            setting `mirrors` that have no mirror, except those that are in the stream since their CREATE TABLE; and
            those whose mirror is blocked or does not have the table's rows.
        is_wrong: Whether a mirror does not have the table's rows.

    Raises:
        Usage: A pattern matches no existing table.
    """
    stream, store = LandedStream.open(source.lake, source.name), SchemaStore(engine)
    position = store.position(source.name)
    seq = position.seq if position else 0
    history, folded = History(store, source.name), folds_names(source.name, engine)
    known = known_tables(source, engine, stream)
    there = sorted(name for name in known if name.table and _is_there(history, name, seq))
    for pattern in unmatched(patterns, there, folded=folded):
        if not unmatched([pattern], known, folded=folded):
            raise Usage(
                f'"{pattern}" matches no table that is there now: it was dropped, has another name, or its definition '
                "is not known",
                source=source.name,
                remedy=f"`strata schema history --source {source.name}` shows what became of tables.",
            )
        raise Usage(no_match(pattern, known), source=source.name, remedy=NAMES_OF_TABLES)
    if patterns:
        return [name for name in there if matches(name, patterns, folded=folded)]
    wanted = [name for name in there if matches(name, source.settings.mirrors, folded=folded)]
    # If a table has no rows, this is known without reading it.
    wanted = [name for name in wanted if not discards_rows(history.after(name, seq).definition)]
    waiting = {(table.database_name, table.table_name) for table in ReadAgainLedger(engine).all(source.name)}
    return [
        name for name in wanted if (name.database, name.table) in waiting or _lacks_rows(source, store, name, is_wrong)
    ]


def _is_there(history: History, name: TableName, seq: int) -> bool:
    try:
        history.after(name, seq)
    except SchemaGapError:
        return False
    return True


def _lacks_rows(source: Source, store: SchemaStore, name: TableName, is_wrong: Callable[[Mirror], bool]) -> bool:
    try:
        mirror = Mirror.open(source.lake, source.name, name)
    except DamagedFileError:
        # The dump reports what is wrong with it.
        return True
    if mirror is not None:
        return mirror.stopped is not None or is_wrong(mirror)
    timeline = store.timeline(source.name, [name])
    made = timeline[0] if timeline else None
    return made is None or made.origin is not VersionOrigin.DDL or made.renamed_from is not None
