"""Landed changes of one table between two transactions, for programs that read them themselves: the range, the columns
that hold the rows of all its versions, and the slices.
Not here: decoding the slices (`changes/`), bringing their rows into these columns (`tables/range_rows.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from strata_cdc.errors import PastUnknownError, SchemaGapError, StreamHoleError
from strata_cdc.pipeline.plan.plan_slices import draft_range
from strata_cdc.position.domains import DomainSet
from strata_cdc.runs.spark_output import error_of
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.store.own import own_database

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.runs.run_plan import PlannedSlice, RunPlan
    from strata_cdc.schema.model.definition import TableDefinition, TableName


def tracked_until(source: Source, engine: sa.Engine, stream: LandedStream) -> int:
    """Ordinal of the last transaction whose rows can be decoded: it has landed, and its DDL is known."""
    position = SchemaStore(engine).position(source.name)
    tracked = min(position.seq if position else 0, stream.last_seq)
    own = own_database(engine, stream.servers())
    # The tracker takes no note of transactions that only change the store's own rows.
    return stream.last_seq if tracked and stream.is_only_of(own, tracked + 1, stream.last_seq) else tracked


def range_definitions(
    source: Source, engine: sa.Engine, stream: LandedStream, table: TableName, after: int, until: int
) -> list[TableDefinition]:
    """Every definition that a table has in the transactions after < seq <= until, by age; also those of rows that were
    prepared earlier and not decided before the range.

    Raises:
        PastUnknownError: The range has not landed, or its DDL is not tracked.
        SchemaGapError: There is no such table in the range, or its schema is not known anywhere in it.
    """
    known = tracked_until(source, engine, stream)
    if until > known:
        raise PastUnknownError(
            f"transaction {until} is needed, and the stream has landed and is tracked up to {known}",
            source=source.name,
            table=str(table),
            remedy=f"Run `strata run --source {source.name}`, or read up to an earlier moment.",
        )
    store = SchemaStore(engine)
    history = History(store, source.name)
    prepared = (each.seq for each in stream.undecided_at(after).prepared() if not each.is_empty)
    first = min([after + 1, until, *prepared])
    begins = {entry.seq for entry in store.timeline(source.name, {table}) if first < entry.seq <= until}
    definitions = {}
    for seq in sorted({first, *begins}):
        # Where the table is not there or not known, it may have no rows; if it has some, the plan refuses them.
        with suppress(SchemaGapError):
            version = history.at(table, AtSeq(seq))
            definitions[version.version_id] = version.definition
    if not definitions:
        history.at(table, AtSeq(until))
    return [definitions[version] for version in sorted(definitions)]


def range_slices(
    source: Source, engine: sa.Engine, stream: LandedStream, table: TableName, after: int, until: int
) -> tuple[PlannedSlice, ...]:
    """The slices of a table's rows in the transactions after < seq <= until.

    Raises:
        SchemaGapError: The schema of some of the rows is not known.
        StreamHoleError: Transactions of the range are not in the lake.
        StatementFormatError: Rows were changed by a statement, and the settings hold such tables back.
        StrataError: Another reason why some of the rows cannot be decoded.
    """
    if after >= until:
        return ()
    plan = draft_range(source, engine, stream, table, after, until)
    held = [planned.held for planned in plan.tables if planned.held is not None]
    for facts in [*(refused.error for refused in plan.refused), *held]:
        raise error_of(facts).located(table=str(table), source=source.name)
    _refuse_missing(source, stream, plan, after, until)
    return plan.slices


def _refuse_missing(source: Source, stream: LandedStream, plan: RunPlan, after: int, until: int) -> None:
    """Transactions that the server has executed and the stream has not."""
    missing = next(iter(plan.breaks.values()), "")
    message = f"the binlog does not go on at {missing} where the transaction before it ends"
    if not missing:
        executed = stream.executed_at(until) - stream.executed_at(after)
        if isinstance(executed, DomainSet) or executed.count() <= until - after:
            return
        message = f"{executed.count()} GTIDs were executed, and {until - after} transactions have landed of them"
    raise StreamHoleError(
        f"transactions are missing between {after} and {until}: {message}",
        source=source.name,
        remedy=f"`strata status --source {source.name}` shows what is missing.",
    )
