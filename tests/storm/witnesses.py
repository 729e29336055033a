"""Everything that must equal everything once all is quiet.
Not here: how it came to be (`workload.py`, `source.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.mirrors.histories.history import history_of
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline import comparisons
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.quality.reconcile.report import ComparisonOutcome
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.read import read_changes
from strata_cdc.views.make_views import MadeView, ViewKind, make_views
from tests.mirrors import history_check
from tests.mirrors.world import assert_rows
from tests.published import published_tables
from tests.quality.compare_rows import compare_rows
from tests.storm.source import NAME
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.quality.reconcile.report import SourceReport
    from strata_cdc.schema.model.definition import TableDefinition
    from tests.storm.source import StormSource
    from tests.storm.workload import Workload

MISSING = "rows that no change since version"
NOW = 2**62
"""Behind every transaction."""


class Witnesses:
    """What is asked at the end of a round; what is refused with a reason is counted, and no more."""

    def __init__(self, source: StormSource, workload: Workload) -> None:
        self._source, self._workload = source, workload
        self._standing: dict[str, str] = {}
        self.equal = 0
        self.refused: dict[str, set[str]] = {}

    def ask(self) -> None:
        """All of them.

        Raises:
            AssertionError: Something is not what SELECT says.
        """
        self.mirrors()
        self.histories()
        self.views()
        self.lines()
        self.comparisons()

    def comparisons(self) -> None:
        """Mirrors compared with the server, change tables with the landed stream, as users do."""
        self._judge("reconcile", comparisons.reconcile(NAME, settings=self._source.settings))
        self._judge("verify", comparisons.verify_changes(NAME, settings=self._source.settings))

    def mirrors(self) -> None:
        """Every table's mirror has the rows of SELECT."""
        report = self._source.mirrors()
        assert [one for one in report.mirrors if one.error] == []
        self._standing = {one.table.partition(".")[2]: one.behind for one in report.mirrors if one.behind}
        for reason in self._standing.values():
            self._refuse("mirror", reason)
        for table, mirror in self._mirrored():
            assert_rows(mirror, self._selected(table, mirror.definition))
            self.equal += 1

    def histories(self) -> None:
        """The versions of rows that are open are the rows of SELECT."""
        engine = self._source.engine
        table_changes, removals = table_changes_of(engine, NAME), removals_of(engine, NAME)
        for table, mirror in self._mirrored():
            history = history_of(self._source.lake, mirror, table_changes, removals)
            found = history_check.reported(history, history_check.by_duckdb)
            if found is None:
                self._refuse("history", "a value is not in the log")
                continue
            selected = self._selected(table, mirror.definition)
            history_check.assert_valid(history, found, NOW, selected)
            self.equal += 1

    def views(self) -> None:
        """Views of now show the rows of SELECT, where they do not say that they lack some."""
        source = self._source
        made = make_views(source.lake, NAME, source.engine, Dialect.DUCKDB, Through.FILES, of_shop)
        history = History(SchemaStore(source.engine), NAME)
        versions = {name: version.definition for name, version in history.tables(AtSeq(history.tracked.seq))}
        for view in [one for one in made if one.kind is ViewKind.NOW]:
            if not view.statements:
                self._refuse("view", view.notes[0])
            # A mirror that a dump has made and that no setting keeps up says at which transaction it is.
            elif source.is_mirrored(view.table.table) or "of the mirror" not in view.notes[0]:
                self._view(view.table, made, versions[view.table])

    def _view(self, table: TableName, made: list[MadeView], definition: TableDefinition) -> None:
        try:
            rows = shown(table, made)
        except duckdb.Error as error:
            (note,) = (one.notes[0] for one in made if (one.table, one.kind) == (table, ViewKind.NOW))
            if "of the mirror" in note or not any(text in str(error) for text in history_check.NOT_TOLD):
                raise
            self._refuse("view", str(error))
            return
        schema = state_schema(definition)
        state = TableState(definition, rows.rename_columns(schema.names).cast(schema))
        compared = compare_rows(state, self._selected(table.table, definition))
        notes = next(one.notes for one in made if (one.table, one.kind) == (table, ViewKind.NOW))
        if any(MISSING in note for note in notes) and not compared.only_replayed and not compared.equal:
            self._refuse("view", "rows are missing, as it says")
            return
        assert compared.equal, (table, notes, compared)
        self.equal += 1

    def lines(self) -> None:
        """The stream from its beginning has the rows of the change tables, each once."""
        source = self._source
        streamed: Counter[Any] = Counter()
        for line in World(source.server, source.folder, name=NAME).lines(tables=["shop.*"]):
            if "op" in line:
                streamed[line["table"], line["gtid"], line["row"]] += 1
        published: Counter[Any] = Counter()
        for name in published_tables(source.lake, NAME):
            rows = read_changes(source.lake, NAME, name, columns=["_gtid", "_row"])
            keys = zip(*(column.to_pylist() for column in rows.columns), strict=True)
            published.update((name.table, *key) for key in keys)
        assert streamed == published
        self.equal += 1

    def _mirrored(self) -> Iterator[tuple[str, Mirror]]:
        """Tables whose mirrors stand nowhere behind."""
        for table in self._workload.tables():
            if self._source.is_mirrored(table) and table not in self._standing:
                mirror = Mirror.open(self._source.lake, NAME, TableName("shop", table))
                assert mirror is not None, table
                assert not mirror.is_dropped, table
                yield table, mirror

    def _selected(self, table: str, definition: TableDefinition) -> Any:
        columns = ", ".join(f"`{column.name}`" for column in definition.columns)
        return self._workload.select(f"SELECT {columns} FROM `{table}`")

    def _judge(self, what: str, report: SourceReport) -> None:
        for one in report.tables:
            lines = list(one.lines())
            assert one.outcome is not ComparisonOutcome.MISMATCH, lines
            if one.outcome is ComparisonOutcome.INCONCLUSIVE:
                assert one.reasons, lines
                self._refuse(what, "; ".join(one.reasons))
            else:
                self.equal += 1

    def _refuse(self, what: str, reason: str) -> None:
        self.refused.setdefault(what, set()).add(reason)


def of_shop(table: TableName) -> bool:
    return table.database == "shop"


def shown(table: TableName, made: list[MadeView]) -> pa.Table:
    """The rows of a table's view of now."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in [statement for one in made if one.table == table for statement in one.statements]:
            connection.execute(statement)
        return pa.table(connection.execute(f'SELECT * FROM shop."{table.table}"').arrow())
