"""Which changes are taken back: by transaction, time, rows, or the text of the client's statement.
Not here: reading changes (`past/table_changes.py`), the options of the command (`cli/undo.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.clock import from_micros
from strata_cdc.errors import InvalidGtidSetError, PastUnknownError, Usage
from strata_cdc.past.change_filters import ConditionFilter, EveryOf, KeyFilter, ReadFirst
from strata_cdc.past.key_conversions import (
    ConvertedKeyFilter,
    ConvertedValues,
    conversions_since,
    steps_by_column,
)
from strata_cdc.past.row_paths import key_columns_of, key_of_words
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import NOTHING
from strata_cdc.position.sets import DOMAIN_GTID, Gtid, GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.past.change_filters import ChangeFilter
    from strata_cdc.past.client_statements import ClientStatements
    from strata_cdc.past.key_conversions import Key
    from strata_cdc.past.row_paths import KeyColumns
    from strata_cdc.past.timeline import ChangeSpan, TablePart
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.model.definition import TableName


class ChosenGtids(Struct, frozen=True):
    """Some transactions: a GTID set of MySQL, or single GTIDs of MariaDB, whose positions mean all before them, too."""

    text: str
    of_mysql: GtidSet | None = None
    of_mariadb: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> ChosenGtids:
        """Reads a GTID set, or GTIDs of MariaDB with commas between them.

        Raises:
            Usage: It is neither.
        """
        parts = [part.strip() for part in text.split(",") if part.strip()]
        try:
            if parts and all(DOMAIN_GTID.fullmatch(part) for part in parts):
                return cls(text, of_mariadb=frozenset(str(Gtid.parse(part)) for part in parts))
            gtids = GtidSet.parse(text)
        except InvalidGtidSetError as error:
            raise Usage(
                f"{text!r} names no transactions", remedy="Write 3e11fa47-...:23-25, or 0-1-23,0-1-24."
            ) from error
        if not gtids:
            raise Usage("the GTID set is empty", remedy="Write 3e11fa47-...:23-25, or 0-1-23,0-1-24.")
        return cls(text, of_mysql=gtids)

    def has(self, gtid: str | None) -> bool:
        """Whether a transaction is among them."""
        if gtid is None:
            return False
        if self.of_mysql is None:
            return gtid in self.of_mariadb
        return not DOMAIN_GTID.fullmatch(gtid) and self.of_mysql.contains(Gtid.parse(gtid))

    def without(self, gtids: Iterable[str]) -> ChosenGtids:
        """The transactions besides some."""
        if self.of_mysql is None:
            left = self.of_mariadb.difference(gtids)
            return ChosenGtids(", ".join(sorted(left)), of_mariadb=left)
        builder = GtidSet().builder()
        for gtid in gtids:
            if not DOMAIN_GTID.fullmatch(gtid):
                builder.add(Gtid.parse(gtid))
        rest = self.of_mysql - builder.build()
        return ChosenGtids(str(rest), of_mysql=rest)

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.of_mysql or self.of_mariadb)

    def are_in(self, before: Executed, after: Executed) -> bool:
        """Whether a server executed all of them after one position and up to another."""
        if self.of_mysql is not None:
            return isinstance(after, GtidSet) and self.of_mysql <= after and not self.are_some_in(NOTHING, before)
        return all(_is_between(Gtid.parse(gtid), before, after) for gtid in self.of_mariadb)

    def are_some_in(self, before: Executed, after: Executed) -> bool:
        """Whether a server executed one of them after one position and up to another."""
        if self.of_mysql is not None:
            return isinstance(after, GtidSet) and isinstance(before, GtidSet) and bool(self.of_mysql & (after - before))
        return any(_is_between(Gtid.parse(gtid), before, after) for gtid in self.of_mariadb)


def _is_between(gtid: Gtid, before: Executed, after: Executed) -> bool:
    return isinstance(after, DomainSet) and after.contains(gtid) and not before.contains(gtid)


class Choice(Struct, frozen=True):
    """The changes that are chosen: those that meet everything that is given."""

    tables: tuple[TableName, ...] = ()
    """None: all."""
    gtids: ChosenGtids | None = None
    since: int | None = None
    """Microseconds UTC: transactions committed then or later."""
    until: int | None = None
    """Microseconds UTC: transactions committed then or earlier."""
    where: str | None = None
    """A condition that a row meets before the change or after it, with the column names of now."""
    keys: tuple[tuple[str, ...], ...] = ()
    """Values of the key, as texts."""
    statement: str | None = None
    """A part of the text of the client's statement, in any case."""

    def require_limits(self) -> None:
        """Refuses a choice of everything that ever happened, and of nothing.

        Raises:
            Usage: Neither transactions nor a time are given; or the last time is before the first.
        """
        if self.since is not None and self.until is not None and self.until < self.since:
            raise Usage(
                f"no time is between {from_micros(self.since)} and {from_micros(self.until)}",
                remedy="The first time (`--from`) is not after the last one (`--to`).",
            )
        if self.gtids is None and self.since is None:
            raise Usage(
                "it is not clear which changes",
                remedy="Name transactions (`--gtid`), or the time of the first one (`--from`). `strata row history "
                "TABLE KEY` shows the changes of a row with their GTIDs.",
            )

    def has_transaction(self, gtid: str | None, committed_at: int) -> bool:
        """Whether a transaction is chosen, as far as transactions and times are given."""
        is_named = self.gtids is None or self.gtids.has(gtid)
        is_late = self.since is None or committed_at >= self.since
        return is_named and is_late and (self.until is None or committed_at <= self.until)

    @property
    def is_of_rows(self) -> bool:
        """Whether single rows are chosen: statements that remove all rows are not chosen then."""
        return self.where is not None or bool(self.keys)

    def has_statement(self, statement: str | None) -> bool:
        """Whether a statement of DDL is chosen, as far as a text is given."""
        return self.statement is None or (statement is not None and self.statement.lower() in statement.lower())

    def filter(
        self, now: ChangeSpan, statements: ClientStatements, parts_for: Callable[[ChangeSpan], Iterable[TablePart]]
    ) -> ChangeFilter:
        """The filter for the changes of one table.

        Args:
            now: The table as it is now.
            parts_for: Gives what happened to the values of a range.

        Raises:
            ConditionError: The condition is not one on this table.
            Usage: The table has no key, or another number of columns in it.
        """
        filters: list[ChangeFilter] = [TransactionTimes(self)]
        if self.keys:
            columns = key_columns_of(now)
            # A filter of several keys would want their combinations, too.
            filters.append(AnyOf(tuple(KeyNow(columns, key_of_words(now, key), parts_for) for key in self.keys)))
        if self.where is not None:
            filters.append(ConditionFilter(self.where, now))
        chosen = EveryOf(tuple(filters))
        return chosen if self.statement is None else StatementFilter(chosen, statements, self.statement)


class AnyOf(Struct, frozen=True):
    """The changes that one of some filters wants."""

    filters: tuple[ChangeFilter, ...]

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        requests = [reads for choice in self.filters if (reads := choice.reads(span)) is not None]
        if not requests:
            return None
        own = dict.fromkeys(name for reads in requests for name in reads.own)
        return ReadFirst(tuple(own), tuple(dict.fromkeys(name for reads in requests for name in reads.facts)))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """See `ChangeFilter`."""
        return any(choice.may_want(rows, span) for choice in self.filters if choice.reads(span) is not None)

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`."""
        return reduce(pc.or_, (choice.wanted(rows, span) for choice in self.filters if choice.reads(span) is not None))


class KeyNow:
    """The changes of rows with a key, in the form that the key has now: DDL may have written it in another way.

    Args:
        columns: The columns that identify a row.
        key: Their values now.
        parts_for: Gives what happened to the values of a range.
    """

    def __init__(self, columns: KeyColumns, key: Key, parts_for: Callable[[ChangeSpan], Iterable[TablePart]]) -> None:
        self._columns, self._key, self._parts_for = columns, key, parts_for
        self._as_it_is = KeyFilter(columns.columns_in, [key])

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        return self._filter(span).reads(span)

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """See `ChangeFilter`."""
        return self._filter(span).may_want(rows, span)

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`."""
        chosen = self._filter(span)
        wanted = chosen.wanted(rows, span)
        unknown = chosen.unknown if isinstance(chosen, ConvertedKeyFilter) else None
        if unknown is not None:
            raise PastUnknownError(
                f"which changes are of the key {', '.join(self._key)} is not known: {unknown}",
                table=str(span.name),
                remedy="Choose by `--gtid`, `--where` or times alone.",
            )
        return wanted

    def _filter(self, span: ChangeSpan) -> ChangeFilter:
        columns = self._columns.columns_in(span)
        # The transaction of a DDL is the first one of the range after it.
        conversions = conversions_since(self._columns, self._parts_for(span), span.until)
        if columns is None or not conversions:
            return self._as_it_is
        return ConvertedKeyFilter(list(map(ConvertedValues, columns, steps_by_column(conversions), self._key)))


class TransactionTimes(Struct, frozen=True):
    """The changes of the chosen transactions."""

    choice: Choice

    def reads(self, span: ChangeSpan) -> ReadFirst | None:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        return ReadFirst(facts=("_gtid", "_committed_at"))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        return True

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:  # noqa: ARG002  the protocol's
        """See `ChangeFilter`."""
        holds = pa.repeat(pa.scalar(value=True), len(rows))
        if self.choice.gtids is not None:
            encoded = pc.dictionary_encode(rows["_gtid"].combine_chunks())
            inside = pa.array([self.choice.gtids.has(name) for name in encoded.dictionary.to_pylist()], pa.bool_())
            holds = pc.fill_null(inside.take(encoded.indices), fill_value=False)
        times = rows["_committed_at"].combine_chunks().cast(pa.int64())
        if self.choice.since is not None:
            holds = pc.and_(holds, pc.greater_equal(times, self.choice.since))
        if self.choice.until is not None:
            holds = pc.and_(holds, pc.less_equal(times, self.choice.until))
        return pc.fill_null(holds, fill_value=False)


class StatementFilter(Struct, frozen=True):
    """Of the changes that another filter wants, those of statements with a text in them."""

    chosen: ChangeFilter
    statements: ClientStatements
    text: str

    def reads(self, span: ChangeSpan) -> ReadFirst | None:
        """See `ChangeFilter`."""
        own = self.chosen.reads(span)
        return None if own is None else ReadFirst(own.own, (*own.facts, *_PLACE))

    def may_want(self, rows: pa.Table, span: ChangeSpan) -> bool:
        """See `ChangeFilter`."""
        return self.chosen.may_want(rows, span)

    def wanted(self, rows: pa.Table, span: ChangeSpan) -> pa.Array:
        """See `ChangeFilter`. A statement that was not logged may be the one."""
        holds = self.chosen.wanted(rows, span).to_pylist()
        positions = zip(*(rows[name].to_pylist() for name in ("_seq", *_PLACE)), strict=True)
        flags = [
            is_chosen and self._has_text(span, *position) for is_chosen, position in zip(holds, positions, strict=True)
        ]
        return pa.array(flags, pa.bool_())

    def _has_text(self, span: ChangeSpan, seq: int, gtid: str | None, binlog_file: str, binlog_pos: int) -> bool:
        statement = self.statements.statement_of(seq, binlog_file, binlog_pos)
        if statement.text is None:
            raise PastUnknownError(
                f"the statement of a change of {gtid or f'transaction {seq}'} is not known: {statement.unknown}",
                table=str(span.name),
                remedy="Choose by `--gtid`, `--where` or times alone. Servers log statements with "
                "binlog_rows_query_log_events (MySQL) and binlog_annotate_row_events (MariaDB).",
            )
        return self.text.lower() in statement.text.lower()


_PLACE: Final = ("_gtid", "_binlog_file", "_binlog_pos")
