"""Views over a source's change tables, for engines that read Delta or Parquet files.
Not here: SQL (`dialects/views.py`), which rows are a table's (`tables/lifetimes.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.moved_rows import RowsWriter
from strata_cdc.dialects.relations import Through, relation_of, schema_of, view_name
from strata_cdc.dialects.view_source import ViewColumn, ViewSource
from strata_cdc.dialects.views import ViewWriter
from strata_cdc.errors import Usage
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.layout import key_names
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.cascades import UNLOGGED, unlogged_cascades
from strata_cdc.schema.history.shell_words import pattern_word
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.engines import KEEPS_NO_ROWS, discards_rows
from strata_cdc.schema.model.row_effects import IGNORES
from strata_cdc.tables.column_sources import view_columns
from strata_cdc.tables.layout import table_url
from strata_cdc.tables.lifetimes import lifetime_of
from strata_cdc.tables.lost import newest_commits, open_changes
from strata_cdc.tables.made_values import with_made_values
from strata_cdc.tables.moved_rows import stages_with_moves
from strata_cdc.tables.view_branches import changes_layout, rows_layout
from strata_cdc.views.mirror_rows import rows_of_mirror, standing_mirror

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    import sqlalchemy as sa

    from strata_cdc.dialects.relations import Relation
    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.history.versions import RowRemoval, StatementChange, TableChange
    from strata_cdc.tables.lifetimes import TableLifetime

CHANGES = "__changes"


class ViewKind(StrEnum):
    """What a view shows."""

    CHANGES = "changes"
    NOW = "now"
    HISTORY = "history"


class MadeView(Struct, frozen=True):
    """The view of a table, or why there is none."""

    table: TableName
    kind: ViewKind
    statements: tuple[str, ...]
    notes: tuple[str, ...]
    """What it cannot show; the reason where there are no statements."""
    columns: tuple[ViewColumn, ...] = ()
    names: tuple[str, ...] = ()
    """What the statements call their views."""


def make_views(
    lake: str,
    source: str,
    engine: sa.Engine,
    dialect: Dialect,
    through: Through,
    wanted: Callable[[TableName], bool] = lambda _: True,
    *,
    member: str = "",
) -> list[MadeView]:
    """The views of all tables of a source that are there now and that something is published of.

    Args:
        dialect: For which engine; DuckDB or Spark.
        through: How it reads change tables.
        wanted: Which tables.
        member: A suffix for the tables' names in those of the views, if several sources have such tables.

    Raises:
        LostTableError: Of a change table something was deleted, or its log is not whole.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The database does not answer.
    """
    past = _StatementsPast(
        table_changes_of(engine, source),
        removals_of(engine, source),
        newest_commits(source, engine),
        frozenset(cascade.name for cascade in unlogged_cascades(engine, source)),
        SchemaStore(engine).statement_changes(source, 0, AFTER_ALL),
    )
    made: list[MadeView] = []
    for name in sorted({change.name for change in past.table_changes}):
        lifetime = lifetime_of(past.table_changes, name) if wanted(name) else None
        if lifetime is not None:
            table = _ViewedTable(lake, source, name, lifetime, past, member)
            made += table.views(dialect, through)
    return with_names_of_their_own(made, dialect)


def with_names_of_their_own(made: Sequence[MadeView], dialect: Dialect) -> list[MadeView]:
    """The views without those that the engine does not tell apart, such as those of T and t, or the changes of `a` and
    the rows of a table `a__changes`: each would replace the one before it."""
    refusals = _refusals(made, dialect)
    preparations: dict[TableName, tuple[str, ...]] = {}
    kept: list[MadeView] = []
    for view in made:
        if id(view) in refusals:
            # What comes before its own statement prepares the other views of the table, too.
            preparations[view.table] = view.statements[:-1]
            kept.append(MadeView(view.table, view.kind, (), (refusals[id(view)],)))
        else:
            before = preparations.get(view.table, ()) if view.statements else ()
            kept.append(replace(view, statements=(*before, *view.statements)))
    return kept


def _refusals(made: Sequence[MadeView], dialect: Dialect) -> dict[int, str]:
    """Why views cannot be made beside others of the same name, by their ids."""
    by_name: dict[str, list[MadeView]] = {}
    for view in made:
        for name in view.names:
            by_name.setdefault(name.lower(), []).append(view)
    return {
        id(view): f"{dialect.value} takes its name for that of {other.table}, {other.kind.value}: "
        f"`--table {pattern_word(view.table)}` gives it alone, for a database of its own"
        for views in by_name.values()
        for view, other in zip(views, views[1:] + views[:1], strict=True)
        if other is not view
    }


def member_name(name: TableName, member: str) -> TableName:
    """What the table of one source is called among those of several."""
    return TableName(name.database, f"{name.table}__{member}") if member else name


class _StatementsPast(Struct, frozen=True):
    """What DDL did to a source's tables, in stream order."""

    table_changes: Sequence[TableChange]
    removals: Sequence[RowRemoval]
    commits: Mapping[TableName, int]
    """The newest commit of each change table that is known to have been made."""
    unlogged: frozenset[TableName]
    """Tables whose rows foreign keys change without row events."""
    logged: Sequence[StatementChange]
    """Statements that changed rows, and were logged as such."""


class _ChangeViews(Struct, frozen=True):
    """What makes the two views over changes."""

    changes: ViewWriter
    source: ViewSource
    """Of both."""
    preludes: list[str]
    """What has to run before."""
    columns: tuple[ViewColumn, ...]


class _ViewedTable:
    """One table, its change tables and its lifetime."""

    def __init__(
        self,
        lake: str,
        source: str,
        name: TableName,
        lifetime: TableLifetime,
        past: _StatementsPast,
        member: str,
    ) -> None:
        self._lake, self._past = lake, past
        self._source_name, self._name = source, name
        self._member, self._called = member, member_name(name, member)
        self._lifetime = lifetime
        self._versions = {change.version_id for change in past.table_changes if change.name == name}
        names = {span.name for span in lifetime.spans}
        outputs = {name: open_changes(lake, source, name, past.commits.get(name)) for name in names}
        self._urls = {name: table_url(lake, source, name) for name in names}
        self._tables = {name: table for name, table in outputs.items() if table is not None}
        self._removals = [removal for removal in past.removals if lifetime.was_called(removal.name, removal.seq)]

    def views(self, dialect: Dialect, through: Through) -> list[MadeView]:
        """Both views: of changes if something is published, of rows if that or a mirror determines them."""
        made, written = [], self._writer(dialect, through)
        if written is not None:
            changes = view_name(self._called, CHANGES, dialect, through)
            statements = (*schema_of(changes, dialect), *written.preludes, written.changes.changes(changes))
            made.append(
                MadeView(
                    self._name,
                    ViewKind.CHANGES,
                    statements,
                    self._notes_of_changes(),
                    written.columns,
                    (changes.sql(),),
                )
            )
        standing = standing_mirror(self._lake, self._source_name, self._name, self._lifetime.definition)
        if standing.mirror is not None:
            return [*made, self._rows_of(standing.mirror, dialect, through)]
        return made if written is None else [*made, self._rows_of_changes(written, dialect, through, standing.why_not)]

    def _rows_of(self, mirror: Mirror, dialect: Dialect, through: Through) -> MadeView:
        view = view_name(self._called, "", dialect, through)
        try:
            statements = rows_of_mirror(mirror, view, dialect, through)
        except Usage as error:
            return MadeView(self._name, ViewKind.NOW, (), (error.facts().message,))
        again = "DDL" if through is Through.DELTA else "each `strata mirror update`"
        note = (
            f"the rows of the mirror, which is at transaction {position_now(self._lake, mirror).seq} as this is written"
        )
        columns = view_columns(self._lifetime.definition, ())
        return MadeView(
            self._name, ViewKind.NOW, statements, (f"{note}: make it anew after {again}",), columns, (view.sql(),)
        )

    def _rows_of_changes(
        self, written: _ChangeViews, dialect: Dialect, through: Through, why_not: str | None
    ) -> MadeView:
        refusal = self._refusal()
        if refusal is not None:
            return MadeView(self._name, ViewKind.NOW, (), (refusal,) if why_not is None else (refusal, why_not))
        view = view_name(self._called, "", dialect, through)
        layout = rows_layout(self._lifetime, key_names)
        source = replace(
            written.source,
            columns=layout.columns,
            branches=layout.branches(self._fields()),
            without_key=layout.stages.without_key,
            of_one_row=layout.stages.of_one_row,
        )
        tables = {str(name): table for name, table in self._tables.items()}
        # Spark computes all that a recursive query reads once for each of its steps; DuckDB computes it once, so that
        # its view is prepared for what comes.
        prepared = {source.stages - 1} if dialect is Dialect.DUCKDB else set()
        source = replace(source, follows=stages_with_moves(source, tables) | prepared)
        source = with_made_values(source, tables)
        now = RowsWriter(dialect, source).now(view)
        notes = self._notes() if why_not is None else (*self._notes(), why_not)
        return MadeView(self._name, ViewKind.NOW, (now,), notes, written.columns, (view.sql(),))

    def _notes(self) -> tuple[str, ...]:
        made = "made with the versions of now: make it anew after DDL and TRUNCATE"
        first = self._lifetime.spans[0].version_id
        missing = f"rows that no change since version {first} has touched are missing"
        logged = [
            f"`{change.statement[:80]}` was logged as a statement ({change.gtid}): what it did to rows is missing"
            for change in self._past.logged
            if any(self._lifetime.was_called(name, change.seq) for name in change.tables or [self._name])
        ]
        return made, missing if self._lifetime.begins is None else f"{missing}: {self._lifetime.begins}", *logged

    def _notes_of_changes(self) -> tuple[str, ...]:
        apart = [
            f"{value.unknown}: NULL in rows of version {span.version_id}, which the change table has in a column apart"
            for span in self._lifetime.spans
            for value in span.values
            if value.is_apart
        ]
        return (*self._notes()[:1], *apart)

    def _refusal(self) -> str | None:
        """Why the rows cannot be known."""
        if self._name in self._past.unlogged:
            return UNLOGGED
        if discards_rows(self._lifetime.definition):
            return KEEPS_NO_ROWS
        for removal in self._removals:
            if not removal.effect.is_whole:
                return f"`{removal.statement}` removed rows, and no log says which"
        emptied = max((removal.seq for removal in self._removals), default=0)
        if any(span.effect.ignores for span in self._lifetime.spans if span.begins > emptied):
            return IGNORES
        if any(table.left_beside() for table in self._tables.values()):
            return "an older version has left rows beside the table; they are part of it once something is published"
        return None

    # What views are made of ---------------------------------------------------------------------

    def _writer(self, dialect: Dialect, through: Through) -> _ChangeViews | None:
        """None if nothing is published."""
        if not self._tables:
            return None
        relations: list[tuple[str, Relation]] = []
        preludes: list[str] = []
        for name, table in sorted(self._tables.items()):
            relation, prelude = relation_of(
                dialect, through, member_name(name, self._member), self._urls[name], sorted(table.files())
            )
            relations.append((str(name), relation))
            preludes += prelude
        columns = view_columns(self._lifetime.definition, key_names(self._lifetime.definition))
        known = [(str(name), tuple(sorted(self._versions))) for name in self._tables if name == self._name]
        source = ViewSource(
            columns,
            tuple(relations),
            changes_layout(self._lifetime, columns).branches(self._fields()),
            tuple(known),
            max((removal.seq for removal in self._removals), default=0),
            f"{self._name} has rows of a version that is newer than this view: run `strata views` again",
        )
        return _ChangeViews(ViewWriter(dialect, source), source, preludes, columns)

    def _fields(self) -> dict[TableName, Sequence[pa.Field]]:
        return {name: table.columns for name, table in self._tables.items()}
