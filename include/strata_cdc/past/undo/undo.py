"""SQL that takes changes of a source back, or makes them again: chooses them, puts them in order, and writes a script.
Not here: one table (`table_survey.py`, `table_outcomes.py`), the script's text (`script.py`), the command
(`cli/undo.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.clock import from_micros
from strata_cdc.config.source_kinds import no_server
from strata_cdc.counted import counted
from strata_cdc.errors import PastUnknownError, StreamHoleError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.table import Mirror
from strata_cdc.past.client_statements import ClientStatements
from strata_cdc.past.table_at import PastTables
from strata_cdc.past.table_changes import TableChanges
from strata_cdc.past.timeline import Timelines
from strata_cdc.past.undo.foreign_keys import cascade_note, cascading_keys
from strata_cdc.past.undo.parents_first import parents_first
from strata_cdc.past.undo.row_changes import origin_of
from strata_cdc.past.undo.schema_undo import in_order_of_names
from strata_cdc.past.undo.steps import ColumnChoice, Direction, StepKind
from strata_cdc.past.undo.table_outcomes import (
    Conflicting,
    Outcome,
    PrintedStatement,
    SkippedChange,
    TableOutcomes,
    done_condition,
    rows_of_mirror,
)
from strata_cdc.past.undo.table_survey import survey_table
from strata_cdc.past.undo.undo_reader import UndoInputs
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.entry_rows import STREAM_ORDER
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import NamePresence
from strata_cdc.schema.model.create_sql import create_table_sql, quoted
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.store.database import OnMissing, open_store, reading
from strata_cdc.store.tables import database_version, schema_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

    from strata_cdc.config.settings import Source
    from strata_cdc.mirrors.follow.published import PublishedSource
    from strata_cdc.past.timeline import TableEvent, TableTimeline, UnknownChanges
    from strata_cdc.past.undo.choice import Choice, ChosenGtids
    from strata_cdc.past.undo.foreign_keys import CascadingKey
    from strata_cdc.past.undo.row_changes import LoggedChange
    from strata_cdc.past.undo.table_survey import TableSurvey
    from strata_cdc.schema.model.definition import TableName

LISTED: Final = 20
"""How many conflicts, reasons and transactions the comments of a script name one by one; JSON lines have all."""


_TRIGGERS: Final = "triggers of the tables act on these statements, too; whether there are any is not known here"


class UndoLimits(Struct, frozen=True):
    """Bounds on memory."""

    window_changes: int = 20_000
    """How many changes are held at once; those of one transaction always are."""
    held_changes: int = 20_000
    """Up to how many changes of each table are held from the first reading on, with their statements."""


class UndoReport(Struct):
    """What is in a script, and what is not."""

    source: str
    direction: Direction
    known_until: int = 0
    """Ordinal of the last transaction that was looked at for later changes of the same rows."""
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Statements by table and kind."""
    changes: int = 0
    """How many changes were chosen."""
    gtids: dict[str, None] = field(default_factory=dict)
    """The transactions of the changes, in the order of the script."""
    conflicts: list[Conflicting] = field(default_factory=list)
    """The first ones."""
    conflict_count: int = 0
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Changes without a statement, by table and reason."""
    notes: list[str] = field(default_factory=lambda: [_TRIGGERS])
    """What a reader has to know before he runs the script."""


_DEFAULT: Final = UndoLimits()


class ChangeScript:
    """A script in the making; used in a `with` block, in which its statements are read.

    Args:
        choice: Which changes.
        direction: Whether they are taken back or made again.
        columns: What an UPDATE sets.
        limits: Bounds on memory.

    Raises:
        SourceSettingsError: The source has no server.
        Usage: Nothing limits the choice, or nothing is chosen.
        PastUnknownError: Some of the chosen changes may not be known; the message says which and what to run.
        ConditionError: The condition is none on the table.
        StoreUnavailableError: The database does not answer.
        LakeUnavailableError: The storage does not answer.
    """

    def __init__(
        self,
        source: Source,
        choice: Choice,
        direction: Direction = Direction.UNDO,
        columns: ColumnChoice = ColumnChoice.CHANGED,
        limits: UndoLimits = _DEFAULT,
    ) -> None:
        if source.is_sink:
            # The script is in the SQL of MySQL and MariaDB, and was proved with no other server.
            raise no_server(source.name)
        choice.require_limits()
        self._choice, self._limits = choice, limits
        self._engine = engine = open_store(source.store_url, OnMissing.REFUSE)
        timelines = Timelines(source.lake, source.name, engine)
        self._past = PastTables(source.lake, source.name, engine)
        changes = TableChanges(source.lake, timelines)
        stream = LandedStream.open(source.lake, source.name)
        statements = ClientStatements(stream)
        self.report = UndoReport(source.name, direction, timelines.tracked)
        self._foreign_keys = cascading_keys(engine, source.name)
        self._children = ChildRows(self._foreign_keys, source.lake, source.name)

        held = limits.held_changes
        inputs = UndoInputs(source.name, changes, statements, self._past, choice, direction, columns, held)
        self._rows_of = lambda name, mirror: rows_of_mirror(timelines.timeline_of(name), inputs, mirror)
        # A name that no table has is refused before changes are read.
        surveys = [survey_table(timeline, inputs) for timeline in list(_timelines(timelines, choice.tables))]
        self._report_surveys(surveys, stream, timelines.published)
        self._surveys = [survey for survey in surveys if survey.changes.orders or survey.events]
        self.report.changes = sum(len(survey.changes.orders) for survey in self._surveys)

    def __enter__(self) -> ChangeScript:
        return self

    def __exit__(self, *_: object) -> None:
        self._past.__exit__(None, None, None)

    @property
    def made_again(self) -> Iterator[tuple[TableName, str]]:
        """The tables that the script makes first, with their CREATE TABLE."""
        for survey in self._surveys:
            if survey.removals.made_again is not None and survey.now is not None:
                yield survey.now.name, create_table_sql(survey.now.name.table, survey.now.definition)

    @property
    def databases_made_again(self) -> Iterator[str]:
        """CREATE DATABASE for those of tables that are made again, if they are gone."""
        for name in dict.fromkeys(name.database for name, _ in self.made_again):
            create = create_database(self._engine, self.report.source, name)
            if create is not None:
                yield create

    @property
    def has_ddl(self) -> bool:
        """Whether the script alters tables."""
        return any(survey.schema.inverses for survey in self._surveys)

    @property
    def changed_tables(self) -> Iterator[TableSurvey]:
        """The tables that the script changes; call it after `outcomes`."""
        changed = {table for table, _ in self.report.written}
        return (survey for survey in self._surveys if survey.now is not None and str(survey.now.name) in changed)

    def outcomes(self) -> Iterator[Outcome]:
        """What becomes of each change, in the order of the script; counted in the report."""
        updated: dict[int, TableName] = {}
        tables = {survey.now.name: survey.reader.table for survey in self._surveys if survey.now is not None}
        for outcome in self._ordered():
            report = self.report
            if isinstance(outcome, PrintedStatement):
                # Of one transaction, an UPDATE of a parent's key comes first, and changes the rows of its children.
                if outcome.may_be_done or updated.get(outcome.origin.seq) not in {None, outcome.table}:
                    done = done_condition(outcome, tables[outcome.table])
                    outcome = replace(outcome, done=done)  # noqa: PLW2901  the same one
                if outcome.kind is StepKind.UPDATE:
                    updated = {outcome.origin.seq: updated.get(outcome.origin.seq, outcome.table)}
                report.written[str(outcome.table), outcome.kind.value] += 1
                self._note_cascades(outcome)
                self._children.note(outcome)
            elif isinstance(outcome, SkippedChange):
                report.skipped[str(outcome.table), outcome.reason] += 1
            else:
                report.conflict_count += 1
                report.conflicts += [outcome] if len(report.conflicts) < LISTED else []
            if outcome.origin.gtid:
                report.gtids[outcome.origin.gtid] = None
            yield outcome
        self.report.notes += [
            f"{survey.timeline.table}: some documents in {', '.join(survey.writer.documents.unknown)} are written by "
            "their texts, since the log does not have their bytes any more: there a DECIMAL becomes a DOUBLE, a date a "
            "text"
            for survey in self._surveys
            if survey.writer.documents.unknown
        ]

    def child_rows(self) -> Iterator[ChildRow]:
        """Rows that foreign keys deleted with those of the script, and that no log has; call it after `outcomes`.

        Raises:
            StrataError: As `ChildRows.found`.
        """
        return self._children.found(self._rows_of)

    def _note_cascades(self, outcome: PrintedStatement) -> None:
        for key in self._foreign_keys:
            note = cascade_note(key, outcome)
            if note is not None and note not in self.report.notes:
                self.report.notes.append(note)

    def _report_surveys(self, surveys: list[TableSurvey], stream: LandedStream, published: PublishedSource) -> None:
        # What the script does at its end is refused before anything of it is written.
        in_order_of_names(survey.schema for survey in surveys)
        self.report.notes += refuse_missing(self._choice, surveys, stream, published)
        self.report.notes += [
            f"{survey.timeline.table} does not exist now: {counted(survey.lost_changes, 'change')} of it are not in "
            "this script. Take back the DROP TABLE, too"
            for survey in surveys
            if survey.lost_changes
        ]
        self._note_ddl(surveys)
        if not any(survey.changes.orders or survey.events or survey.lost_changes for survey in surveys):
            raise Usage(
                "no change is chosen",
                source=self.report.source,
                remedy="`strata row history TABLE KEY` shows the changes of a row, with their transactions and times.",
            )

    def _note_ddl(self, surveys: list[TableSurvey]) -> None:
        """Counts the DDL of the script, and says what of it is no part of a transaction."""
        for survey in surveys:
            for inverse in survey.schema.inverses:
                self.report.written[str(inverse.now.name), "DDL"] += 1
                self.report.gtids.update(dict.fromkeys(filter(None, [inverse.event.gtid])))
            self.report.notes += [
                f"{survey.timeline.table}: partitions are not made again; rows that no partition takes are an error"
                for event in survey.removals.chosen
                if not event.removes_all
            ]
        left = [event for survey in surveys for event in survey.schema.left]
        if left:
            self.report.notes.append(
                f"{counted(len(left), 'statement')} of DDL lost nothing and stay; named by `--gtid`, they are taken "
                f"back: {'; '.join(str(origin_of(event)) for event in left[:LISTED])}"
            )
        if any(survey.schema.inverses for survey in surveys):
            self.report.notes.append(
                "this is not one transaction: the tables are locked for all of it (LOCK TABLES), columns that come "
                "back stay if the rest fails, and columns and tables go after everything else is committed"
            )

    # Order ------------------------------------------------------------------------------------------

    def _ordered(self) -> Iterator[Outcome]:
        is_undo = self.report.direction is Direction.UNDO
        tables = [TableOutcomes(survey) for survey in self._surveys]
        events = [(event.seq, table, event) for table in tables for event in table.survey.events]
        windows = self._windows()
        for after, until in reversed(windows) if is_undo else windows:
            chosen: list[tuple[tuple[int, int], TableOutcomes, LoggedChange | TableEvent]] = []
            for table in tables:
                chosen += [(order, table, change) for order, change in table.window(after, until)]
            chosen += [((seq, 0), table, event) for seq, table, event in events if after < seq <= until]
            chosen.sort(key=lambda item: item[0], reverse=is_undo)
            for _, table, change in parents_first(chosen, self._foreign_keys) if is_undo else chosen:
                yield from table.outcomes(change)

    def _windows(self) -> list[tuple[int, int]]:
        """Parts of the stream with few chosen changes, each after one transaction and up to another, in order."""
        counted: Counter[int] = Counter(seq for survey in self._surveys for seq, _ in survey.changes.orders)
        counted.update(event.seq for survey in self._surveys for event in survey.events)
        windows, held, begin = [], 0, None
        for seq in sorted(counted):
            begin = seq - 1 if begin is None else begin
            held += counted[seq]
            if held >= self._limits.window_changes:
                windows.append((begin, seq))
                held, begin = 0, None
        if begin is not None:
            windows.append((begin, max(counted)))
        return windows


def _timelines(timelines: Timelines, names: tuple[TableName, ...]) -> Iterator[TableTimeline]:
    """Of these tables, or of all that there are or were."""
    if names:
        yield from (timelines.timeline_of(name.lower() if timelines.folds_names else name) for name in names)
        return
    for name in timelines.events.tables():
        try:
            yield timelines.timeline_of(name)
        except Usage:
            # A name that the table has given up: its changes are those of the table with its later name.
            continue


def create_database(engine: Engine, source: str, name: str) -> str | None:
    """The statement, with the defaults that the database had; None if it is not known to be gone.

    Args:
        name: The database.

    Raises:
        StoreUnavailableError: The database of the store does not answer.
    """
    entry = SchemaStore(engine).database(source, name)
    if entry is None or entry.presence is not NamePresence.DROPPED:
        return None
    version = database_version.c
    query = (
        sa.select(version.character_set, version.collation)
        .join(schema_version, schema_version.c.id == version.version_id)
        .where(version.source == source, version.database_name == name, version.state == NamePresence.PRESENT.value)
        .order_by(*(column.desc() for column in STREAM_ORDER))
        .limit(1)
    )
    with reading(engine) as connection:
        row = connection.execute(query).one_or_none()
    defaults = f" CHARACTER SET {row.character_set} COLLATE {row.collation}" if row and row.collation else ""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)}{defaults}"


def refuse_missing(
    choice: Choice, surveys: list[TableSurvey], stream: LandedStream, published: PublishedSource
) -> list[str]:
    """What a reader has to know of later changes that are not known yet.

    Args:
        surveys: Of all its tables.
        published: How far changes are published.

    Raises:
        PastUnknownError: Chosen changes may be missing.
    """
    seqs = {seq for survey in surveys for seq, _ in survey.changes.orders}
    seqs |= {event.seq for survey in surveys for event in survey.events}
    gtids = (gtid for survey in surveys for gtid in survey.gtids)
    unfound = None if choice.gtids is None else choice.gtids.without(gtids)
    if unfound is not None and not unfound.are_in(stream.executed_before(), stream.executed()):
        raise PastUnknownError(
            f"some of these transactions are not in the landed stream: {unfound.text}",
            source=stream.source,
            remedy="`strata run` lands and publishes what the server has; `strata status` shows from where on.",
        )
    for part in (part for survey in surveys for part in survey.unknown):
        has_found = any(part.after < seq <= part.until for seq in seqs)
        if has_found or _may_have(part, choice, unfound, stream, published):
            raise PastUnknownError(
                f"changes after transaction {part.after} and up to {part.until} are not known, and some of them may be "
                f"chosen: {part.reason}",
                source=stream.source,
                table=str(part.name),
                remedy=f"`strata intervals --source {stream.source}` shows what is not published, `strata run` "
                "publishes it. Or name other tables (`--table`), or other transactions.",
            )
    return list(_notes(choice, surveys, stream))


def _may_have(
    part: UnknownChanges, choice: Choice, unfound: ChosenGtids | None, stream: LandedStream, published: PublishedSource
) -> bool:
    """Whether a range that is not known may have chosen transactions."""
    if unfound is not None:
        try:
            return unfound.are_some_in(stream.executed_at(part.after), stream.executed_at(part.until))
        except (StreamHoleError, Usage):
            return not unfound.is_empty
    if choice.until is None and part.until >= stream.last_seq:
        # Up to now means up to what is published; a note says so.
        return False
    is_early = choice.until is not None and published.clock_at(part.after) > choice.until
    is_late = choice.since is not None and 0 < published.clock_at(part.until) < choice.since
    return not (is_early or is_late)


def _notes(choice: Choice, surveys: list[TableSurvey], stream: LandedStream) -> Iterator[str]:
    if choice.gtids is not None:
        return
    if choice.until is None or choice.until >= stream.clock:
        yield f"the stream has landed up to {from_micros(stream.clock)}: later changes are not in this script"
    for survey in surveys:
        for part in survey.unknown:
            if part.until >= stream.last_seq:
                yield f"changes of {part.name} after transaction {part.after} are not in this script: {part.reason}"


class ChildRow(Struct, frozen=True):
    """A row that referenced a row which the script brings back."""

    table: TableName
    seq: int
    """The row is as it was after the transaction with this ordinal; the table may still have it."""
    sql: str


class ChildRows:
    """Rows of children, found after all statements of their parents.

    Args:
        keys: The foreign keys.
    """

    def __init__(self, keys: list[CascadingKey], lake: str, source: str) -> None:
        self._keys = [key for key in keys if not key.is_logged and key.parent is not None]
        self._lake, self._source = lake, source
        self._parents: dict[CascadingKey, set[tuple[Any, ...]]] = {}
        self._first = AFTER_ALL

    def note(self, written: PrintedStatement) -> None:
        """Looks at a statement: of rows that are brought back, children may be gone."""
        for key in self._keys if written.row else ():
            if key.parent == written.table:
                self._parents.setdefault(key, set()).add(_values(written.row, key.referenced))
                self._first = min(self._first, written.origin.seq)

    def found(self, rows_of: Callable[[TableName, Mirror], Iterator[tuple[dict[str, Any], str]]]) -> Iterator[ChildRow]:
        """The rows of children, of tables that have a mirror from before the changes.

        Args:
            rows_of: Gives the rows of a mirror of a table, each with an INSERT.

        Raises:
            DamagedFileError: The lake has lost files of a mirror.
            LakeUnavailableError: The storage does not answer.
        """
        for key, parents in self._parents.items():
            mirror = Mirror.open_before(self._lake, self._source, key.child, self._first)
            if mirror is None:
                continue
            for row, sql in rows_of(key.child, mirror):
                if _values(row, key.columns) in parents:
                    yield ChildRow(key.child, mirror.position.seq, sql)


def _values(row: dict[str, Any], columns: tuple[str, ...]) -> tuple[Any, ...]:
    folded = {fold_name(name): value for name, value in row.items()}
    return tuple(folded.get(fold_name(name)) for name in columns)
