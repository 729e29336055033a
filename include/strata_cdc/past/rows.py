"""Questions about rows of the past: the history of a row, whose value each of its columns has, what differs between two
moments.
Not here: how they are answered (`row_history.py`, `row_blame.py`, `row_diff.py`), text (`row_texts.py`)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.arrow_columns import no_rows
from strata_cdc.errors import Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.layout import key_names
from strata_cdc.past.change_filters import ConditionFilter
from strata_cdc.past.client_statements import ClientStatements
from strata_cdc.past.key_conversions import conversions_since, is_unknown, steps_by_column, texts_since
from strata_cdc.past.key_json import words_of_json
from strata_cdc.past.moment import PastMoment, find_moment, point_of
from strata_cdc.past.row_blame import Blame, RowBlame
from strata_cdc.past.row_diff import MomentDifference, MomentRows, column_differences, row_differences
from strata_cdc.past.row_history import HistoryChange, HistoryRequest, history_of_filter, history_of_key
from strata_cdc.past.row_paths import key_columns_of, key_of_words, row_paths
from strata_cdc.past.rows_as_json import json_rows_of, key_image, rows_with_key
from strata_cdc.past.table_at import PastTables
from strata_cdc.past.table_changes import TableChanges
from strata_cdc.past.timeline import Timelines, UnknownChanges
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.ticdc.landed_steps import commit_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.dialects.view_source import TypeChange
    from strata_cdc.past.key_conversions import Key
    from strata_cdc.past.row_diff import ColumnDifference
    from strata_cdc.past.row_history import HistoryEvent, HistoryLine
    from strata_cdc.past.row_paths import KeyColumns
    from strata_cdc.past.timeline import ChangeSpan, TableTimeline
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class BlamedRow(Struct, frozen=True):
    """A row at a moment, and what gave each of its values."""

    table: TableName
    moment: PastMoment
    key: dict[str, str]
    """The values of its key as texts (`key_texts.py`), by column."""
    definition: TableDefinition
    """Of the table at the moment."""
    values: tuple[Blame, ...]


class TableDiff(Struct, frozen=True):
    """What differs between the rows of a table at two moments."""

    before: ChangeSpan | None
    """The table at the first moment: name and definition; None if it did not exist."""
    after: ChangeSpan
    first: PastMoment
    second: PastMoment
    columns: tuple[ColumnDifference, ...]
    rows: Iterator[MomentDifference]
    """Computed one by one."""
    doubt: str | None = None
    """Why a row may be shown as one that went and one that came: what a DDL made of its key is not known."""


class PastRows(AbstractContextManager["PastRows"]):
    """The rows of a source's tables through time; what is made for them goes with the `with` block.

    Raises:
        StrataError: The lake or the store does not answer.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._engine = open_store(source.store_url, OnMissing.REFUSE)
        self.commits = commit_places(source)
        """Where DDL is, of a TiCDC sink; None of a server."""
        self._timelines = Timelines(source.lake, source.name, self._engine)
        self._changes = TableChanges(source.lake, self._timelines)

    def __exit__(self, *_: object) -> None:
        if "_tables" in self.__dict__:
            self._tables.__exit__(None, None, None)

    @cached_property
    def _tables(self) -> PastTables:
        return PastTables(self._source.lake, self._source.name, self._engine)

    # Questions ---------------------------------------------------------------------------------------

    def history(
        self,
        table: TableName,
        key: Sequence[str] = (),
        *,
        where: str | None = None,
        since: str | None = None,
        until: str | None = None,
        statements: bool = True,
    ) -> Iterator[HistoryLine]:
        """The changes of the rows that ever had a key, or of those that meet a condition, in order.

        Args:
            table: The table's name at the end of the time.
            key: A value for each column of the key. Each row that had it comes with all of its changes, those under
                other keys too.
            where: Instead of a key, a condition in MySQL's SQL with the names that the columns have at the end:
                changes of rows that meet it before or after the change.
            since: Only changes after this moment: a time, or a GTID set.
            until: Only changes up to this moment; None: all.
            statements: Whether the clients' statements are read from the landed segments.

        Raises:
            Usage: The key or the condition does not fit the table.
            PastUnknownError: Of a change, nobody knows whether it meets the condition.
            StrataError: The lake or the store does not answer, or is damaged.
        """
        timeline = self._timeline(table, since, until)
        last = self._last(timeline)
        request = HistoryRequest(self._changes, timeline, self._statements if statements else None)
        if timeline.unlogged is not None:
            yield UnknownChanges(timeline.table, timeline.after, timeline.until, timeline.unlogged)
        if where is None:
            columns = key_columns_of(last)
            yield from history_of_key(request, row_paths(self._changes, timeline, columns, key_of_words(last, key)))
        else:
            yield from history_of_filter(request, ConditionFilter(where, last))

    def key_columns(self, table: TableName, *, at: str | None = None) -> tuple[str, ...]:
        """The names of the columns that identify a row, in the order in which a key has their values.

        Args:
            table: The table's name at the moment.
            at: The moment: a time, or a GTID set; None: now.

        Raises:
            Usage: There is no such table, or it has no key.
            StrataError: The store does not answer.
        """
        return key_columns_of(self._last(self._timeline(table, None, at))).names

    def words_of_key(self, table: TableName, text: str, *, at: str | None = None) -> list[str]:
        """The values of a key that is written as JSON (`key_json.py`), for the questions here.

        Raises:
            Usage: As for `key_columns`; the text has not exactly the columns of the key.
            StrataError: The store does not answer.
        """
        last = self._last(self._timeline(table, None, at))
        columns = key_columns_of(last).columns_in(last)
        return words_of_json(text, columns or ())

    def blame(self, table: TableName, key: Sequence[str], *, at: str | None = None) -> BlamedRow:
        """What gave each value of a row.

        Args:
            table: The table's name at the moment.
            key: A value for each column of the key.
            at: The moment: a time, or a GTID set; None: the last one up to which all changes of the table are known.

        Raises:
            Usage: There is no such row, or the key does not fit the table.
            PastUnknownError: The row's values at the moment are not known.
            StrataError: The lake or the store does not answer, or is damaged.
        """
        timeline = self._timeline(table, None, at)
        if at is None and timeline.known_until < timeline.until:
            timeline = self._timelines.timeline_of(timeline.table, 0, timeline.known_until)
        last = self._existing(timeline)
        columns, words = key_columns_of(last), key_of_words(last, key)
        moment = PastMoment(timeline.until) if at is None else self._moment(at)
        paths = row_paths(self._changes, timeline, columns, words)
        number = paths.row_at_end()
        if number is None:
            raise self._no_row(timeline, moment)
        alone = replace(paths, wanted=frozenset({number}))
        request = HistoryRequest(self._changes, timeline, all_events=True)
        blame = RowBlame(history_of_key(request, alone), timeline.unlogged)
        values = blame.values(last, lambda: self._row(last, columns, words, moment))
        if values is None:
            raise self._no_row(timeline, moment)
        named = dict(zip(columns.names, words, strict=True))
        blames = tuple(replace(blame, cause=self._with_statement(blame.cause)) for blame in values)
        return BlamedRow(timeline.table, moment, named, last.definition, blames)

    def diff(self, table: TableName, key: Sequence[str] = (), *, since: str, until: str | None = None) -> TableDiff:
        """What differs between the rows of a table at two moments.

        Args:
            table: The table's name at the second moment; at the first one, it may have had another.
            key: A value for each column of the key, for one row alone.
            since: The first moment: a time, or a GTID set.
            until: The second moment; None: the last one that the table's mirror has reached.

        Raises:
            Usage: The key does not fit the table, or the table did not exist.
            PastUnknownError: The table's rows at one of the moments are not known.
            StrataError: The lake or the store does not answer, or is damaged.
        """
        name = self._name(table)
        first = self._moment(since)
        second = self._tables.newest([name]) if until is None else self._moment(until)
        if second.seq < first.seq:
            raise Usage("the first moment is after the second one", remedy="Exchange `--from` and `--to`.")
        timeline = self._timelines.timeline_of(name, 0, second.seq)
        after = self._existing(timeline)
        before = timeline.span_at(first.seq)
        words = key_of_words(after, key) if key else None
        new, doubt = self._rows(after, second, after, words), None
        if before is None:
            self._refuse_if_not_known(name, first)
            old: MomentRows = MomentRows(after, no_rows(new.rows.schema))
            columns: tuple[ColumnDifference, ...] = ()
        else:
            columns = tuple(column_differences(before, after))
            converted = _key_steps(timeline, after, first)
            old = self._rows(before, first, after, words, [() if is_unknown(of) else of for of in converted.values()])
            old, doubt = _with_keys_since(old, converted)
        return TableDiff(before, after, first, second, columns, row_differences(old, new), doubt)

    # Parts of the answers ----------------------------------------------------------------------------

    @cached_property
    def _statements(self) -> ClientStatements:
        return ClientStatements(LandedStream.open(self._source.lake, self._source.name))

    def _with_statement(self, cause: HistoryChange | HistoryEvent | None) -> HistoryChange | HistoryEvent | None:
        if not isinstance(cause, HistoryChange):
            return cause
        statement = self._statements.statement_of(cause.seq, cause.binlog_file, cause.binlog_pos)
        return replace(cause, statement=statement)

    def _name(self, table: TableName) -> TableName:
        return table.lower() if self._timelines.folds_names else table

    def _moment(self, text: str) -> PastMoment:
        return find_moment(self._source.lake, self._source.name, self._engine, point_of(text))

    def _timeline(self, table: TableName, since: str | None, until: str | None) -> TableTimeline:
        after = 0 if since is None else self._moment(since).seq
        end = self._timelines.tracked if until is None else self._moment(until).seq
        if end < after:
            raise Usage("the first moment is after the second one", remedy="Exchange `--from` and `--to`.")
        return self._timelines.timeline_of(self._name(table), after, end)

    def _last(self, timeline: TableTimeline) -> ChangeSpan:
        """The newest definition; the table may be gone since."""
        span = timeline.last_known or self._timelines.timeline_of(timeline.table, 0, timeline.until).last_known
        if span is None:
            raise Usage(
                "no definition of the table is known",
                source=self._source.name,
                table=str(timeline.table),
                remedy=f"`strata schema history --source {self._source.name}` says since when, and `strata snapshot "
                f"--source {self._source.name}` reads the definitions of now.",
            )
        return span

    def _existing(self, timeline: TableTimeline) -> ChangeSpan:
        span = timeline.last
        if span is None:
            raise Usage(
                f"the table does not exist at transaction {timeline.until}, or its definition is not known",
                source=self._source.name,
                table=str(timeline.table),
                remedy=f"`strata schema history --source {self._source.name}` shows when each table had which name; "
                "name an earlier moment.",
            )
        return span

    def _refuse_if_not_known(self, name: TableName, moment: PastMoment) -> None:
        """Refuses a table of which nobody knows what it was at a moment; one that did not exist had no rows."""
        try:
            self._tables.definition(name, moment)
        except Usage:
            return

    def _no_row(self, timeline: TableTimeline, moment: PastMoment) -> Usage:
        return Usage(
            f"no row has this key at transaction {moment.seq}",
            source=self._source.name,
            table=str(timeline.table),
            remedy="`strata row history TABLE KEY` shows the rows that had it, and what became of them.",
        )

    def _row(self, span: ChangeSpan, columns: KeyColumns, key: Key, moment: PastMoment) -> dict[str, Any] | None:
        """The row with a key at a moment, from the mirror."""
        rows = rows_with_key(self._tables.rows(span.name, moment), columns.names, key)
        objects = json_rows_of(rows, span.definition)
        return objects[0] if objects else None

    def _rows(
        self,
        span: ChangeSpan,
        moment: PastMoment,
        last: ChangeSpan,
        key: Key | None,
        since: Sequence[Sequence[TypeChange]] = (),
    ) -> MomentRows:
        """The rows of a table at a moment; with a key of the version `last`, those alone that have it after the
        conversions `since`."""
        mirror = self._tables.rows(span.name, moment)
        if key is None:
            return MomentRows(span, pa.concat_tables([no_rows(mirror.exact_schema), *mirror.exact_batches()]))
        names = {number: name for name, number in span.ids_by_name.items()}
        ids = key_columns_of(last).ids
        if any(number not in names for number in ids):
            raise Usage(
                f"the table had not all columns of its key at transaction {moment.seq}",
                table=str(span.name),
                remedy="Leave out the key to compare all rows.",
            )
        return MomentRows(span, rows_with_key(mirror, [names[number] for number in ids], key, since))


def _key_steps(timeline: TableTimeline, last: ChangeSpan, moment: PastMoment) -> dict[int, list[TypeChange]]:
    """The conversions of each column of a key after a moment; empty without any."""
    if not key_names(last.definition):
        return {}
    columns = key_columns_of(last)
    conversions = conversions_since(columns, timeline.parts, moment.seq)
    return dict(zip(columns.ids, steps_by_column(conversions), strict=True)) if conversions else {}


def _with_keys_since(old: MomentRows, since: Mapping[int, Sequence[TypeChange]]) -> tuple[MomentRows, str | None]:
    """Rows with their keys after some conversions, and why some of these are not known. A conversion of which nothing
    is known leaves them as they are."""
    columns, texts, doubt = old.span.columns_by_id, {}, None
    for number, steps in since.items():
        if number not in columns or not steps:
            continue
        values, unknown = texts_since(key_image(old.rows, columns[number]), steps)
        doubt = doubt or unknown
        if not is_unknown(steps):
            texts[number] = values
    return replace(old, key_texts=texts), doubt
