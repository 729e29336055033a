"""The history of one mirrored table: its parts, and its view for DuckDB, Spark and polars.
Not here: where it begins (`beginning.py`), SQL (`dialects/history.py`), batches for polars (`frame.py`)."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.changes.arrow import BEFORE, INVALID, arrow_type
from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.history import VALIDITY, HistorySource, HistoryWriter, Moment
from strata_cdc.dialects.relations import Through, registered, relation_of, schema_of, view_name
from strata_cdc.dialects.view_source import Branch, ColumnSource, ViewSource
from strata_cdc.errors import Usage
from strata_cdc.files.storage import arrow_file_system
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.data_files import names_in
from strata_cdc.mirrors.histories.beginning import beginning_of
from strata_cdc.mirrors.histories.former_names import earliest
from strata_cdc.mirrors.layout import key_columns, key_names
from strata_cdc.mirrors.made_again import MADE_AGAIN
from strata_cdc.mirrors.position import UNNAMED, Naming
from strata_cdc.mirrors.renames import is_former, name_in_files
from strata_cdc.mirrors.table import Mirror
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.engines import KEEPS_NO_ROWS, discards_rows
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.tables.layout import INTERVAL, column_name, table_url
from strata_cdc.tables.lifetimes import lifetime_of
from strata_cdc.tables.lost import newest_commits, open_changes
from strata_cdc.tables.made_values import with_made_values
from strata_cdc.tables.moved_rows import stages_with_moves
from strata_cdc.tables.verbatim import INVALID_COLUMN
from strata_cdc.tables.view_branches import history_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.dialects.view_source import ViewColumn
    from strata_cdc.mirrors.histories.beginning import Beginning
    from strata_cdc.mirrors.histories.former_names import FormerMirror
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.mirrors.row_bounds import Ranges
    from strata_cdc.position.token import Token
    from strata_cdc.schema.history.versions import RowRemoval, TableChange
    from strata_cdc.tables.lifetimes import TableLifetime, VersionSpan
    from strata_cdc.tables.made_values import TableWithValues
    from strata_cdc.tables.port import OutputTable
    from strata_cdc.tables.view_branches import ViewLayout


class BaseRows(Struct, frozen=True):
    """The rows with which a history begins."""

    files: ds.Dataset
    version: int
    """The schema version of all of them."""

    @property
    def columns(self) -> pa.Schema:
        """The columns in the files."""
        return self.files.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows, in no order, a batch at a time.

        Args:
            columns: Names of the requested columns, among them those that only changes have.
        """
        inside = [name for name in columns if name in self.files.schema.names]
        for batch in self.files.to_batches(columns=inside):
            count = batch.num_rows
            beside = {
                "_schema_version": pa.repeat(pa.scalar(self.version, pa.int64()), count),
                # No statement has removed these rows.
                "_seq": pa.repeat(pa.scalar(AFTER_ALL, pa.int64()), count),
                BEFORE: pa.nulls(count, pa.struct(list(self.files.schema))),
                INVALID_COLUMN: pa.nulls(count, INVALID),
            }
            yield pa.table({name: batch[name] if name in inside else beside[name] for name in columns})


HISTORY = "__history"
_ALL_VALUES: Mapping[int, Ranges] = MappingProxyType({})
_UNKNOWN: Mapping[TableName, int] = MappingProxyType({})
_BASE = "the mirror's first rows"


class MirrorHistory(Struct, frozen=True):
    """The history of a mirrored table, up to the mirror's position when it was opened."""

    lake: str
    mirror: Mirror
    begins_at: MirrorPosition
    reached: MirrorPosition
    lifetime: TableLifetime
    urls: dict[TableName, str]
    tables: dict[TableName, OutputTable]
    """Change tables of the mirror's table, by the names that the table had."""
    versions: frozenset[int]
    """Versions of the table up to the mirror's position."""
    base: Mirror
    """The mirror as it was where the history begins; that of a former name if it begins before a RENAME."""
    emptied: tuple[Moment, ...]
    naming: Naming = UNNAMED

    @property
    def begins(self) -> Token:
        """The position from which on it has everything. Rows from before have NULL in `_valid_from`.

        Raises:
            Usage: The source has no GTIDs.
        """
        return self.begins_at.token(self.mirror.source, self.naming)

    @property
    def is_whole(self) -> bool:
        """Whether it begins with the statement that made the table, before which there were no rows."""
        first = self.spans[0]
        return first.effect.makes_table and first.begins == self.begins_at.seq

    @property
    def position(self) -> Token:
        """The position up to which it has everything.

        Raises:
            Usage: The source has no GTIDs.
        """
        return self.reached.token(self.mirror.source, self.naming)

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a row, in MySQL's spelling; none if in any version only the whole row does."""
        definition = self.mirror.definition
        own = set(key_columns(definition))
        key = tuple(column.name for column in definition.columns if column_name(column.name) in own)
        return key if all(self._had_key(span, key) for span in self.spans) else ()

    @property
    def spans(self) -> tuple[VersionSpan, ...]:
        """The versions of its rows."""
        return self.lifetime.spans

    def sql(self, dialect: Dialect | str, through: Through | str = Through.DELTA) -> tuple[str, ...]:
        """Statements that make the view `database.table__history` in an engine.

        Args:
            dialect: `duckdb` or `spark`.
            through: `delta`: with the engine's reader of Delta tables; later publications are in the view once the
                mirror has them, until the next DDL or TRUNCATE. `files`: only what there is now.
        """
        dialect, through = Dialect(dialect), Through(through)
        view = view_name(self.mirror.table, HISTORY, dialect, through)
        source, preludes = self._source(dialect, through)
        return (*schema_of(view, dialect), *preludes, HistoryWriter(dialect, source).history(view))

    def to_duckdb(self, connection: Any) -> Any:
        """The history as a relation of a DuckDB connection, read from its files.

        Args:
            connection: As returned by `duckdb.connect()`.
        """
        source, _ = self._source(Dialect.DUCKDB, Through.FILES)
        return connection.sql(HistoryWriter(Dialect.DUCKDB, source).query().sql(Dialect.DUCKDB.value))

    def to_polars(self) -> Any:
        """The history as a LazyFrame of polars, which DuckDB computes whenever it is collected.

        Raises:
            Usage: The package duckdb is not installed.
        """
        # Imported here: these packages are installed only if the caller needs them.
        try:
            from strata_cdc.mirrors.histories.frame import frame_of  # noqa: PLC0415  see above
        except ModuleNotFoundError as error:
            raise Usage(
                f"{error.name} is not installed",
                remedy="Install the packages polars and duckdb, which this needs both.",
            ) from error
        return frame_of(*self.computed())

    def computed(self, within: Mapping[int, Ranges] = _ALL_VALUES) -> tuple[str, dict[str, ds.Dataset], pa.Schema]:
        """The query that computes it in DuckDB; by name, what the query reads besides the files that it names; and the
        query's columns: those of the table in its order (a name of `VALIDITY` has an underscore more), and `VALIDITY`.

        Args:
            within: By the numbers of integer columns, values outside which versions may be skipped. Only versions of
                rows with other keys are: what a version is depends on the events of its key alone.
        """
        source, _ = self._source(Dialect.DUCKDB, Through.FILES)
        source = replace(source, keys=self._keys_within(source.view.columns, within))
        datasets: dict[str, ds.Dataset] = {}
        if "://" in self.lake:
            # DuckDB's own reader of object stores is an extension with settings of its own.
            datasets = {f"files_{at}": self._dataset(name) for at, (name, _) in enumerate(source.view.relations)}
            read = zip(source.view.relations, datasets, strict=True)
            relations = tuple((name, registered(dataset)) for (name, _), dataset in read)
            source = replace(source, view=replace(source.view, relations=relations))
        shown = [column for column in source.view.columns if column.is_shown]
        schema = pa.schema([*((column.published, column.kind) for column in shown), *VALIDITY])
        return HistoryWriter(Dialect.DUCKDB, source).query().sql(Dialect.DUCKDB.value), datasets, schema

    def _keys_within(
        self, columns: Sequence[ViewColumn], within: Mapping[int, Ranges]
    ) -> tuple[tuple[int, Ranges], ...]:
        """The ranges of columns that were part of the key and whole numbers in all versions, by the numbers of the
        view's columns."""
        shown = [at for at, column in enumerate(columns) if column.is_shown]
        key = set(self.key)
        return tuple(
            (shown[number], ranges)
            for number, ranges in within.items()
            if self.mirror.definition.columns[number].name in key and self._was_whole_number(number)
        )

    def _was_whole_number(self, number: int) -> bool:
        columns = [span.values[number].origin.column for span in self.spans]
        return all(column is not None and pa.types.is_integer(arrow_type(column)) for column in columns)

    def column_sources(self, number: int) -> tuple[ColumnSource, ...]:
        """Where the changes of each version, and the first rows, have the values of a column of the table now, which is
        given by its number."""
        layout = self._layout()
        base = self._base(layout)
        branches = layout.branches({name: table.columns for name, table in self.tables.items()})
        return tuple(branch.column_sources[number] for branch in (*branches, *([] if base is None else [base])))

    # What views are made of ---------------------------------------------------------------------

    def _source(self, dialect: Dialect, through: Through) -> tuple[HistorySource, list[str]]:
        relations, preludes = [], []
        for name, table in sorted(self.tables.items()):
            relation, prelude = relation_of(dialect, through, name, self.urls[name], sorted(table.files()))
            relations.append((str(name), relation))
            preludes += prelude
        layout = self._layout()
        branches = layout.branches({name: table.columns for name, table in self.tables.items()})
        base = self._base(layout)
        if base is not None:
            its_name = TableName(self.mirror.table.database, f"{self.mirror.table.table}__first")
            its_files = sorted(self.base.snapshot.files)
            relation, prelude = relation_of(dialect, Through.FILES, its_name, self.base.url, its_files)
            relations.append((_BASE, relation))
            preludes += prelude
        own = [str(name) for name in self.tables if name == self.mirror.table]
        live = None
        if through is Through.DELTA:
            live, _ = relation_of(dialect, through, self.mirror.table, self.mirror.url, ())
        view = ViewSource(
            layout.columns,
            tuple(relations),
            (*branches, *([] if base is None else [base])),
            tuple((name, tuple(sorted(self.versions))) for name in own),
            0,
            f"{self.mirror.table} has rows of a version that is newer than this view: make it anew",
            layout.stages.without_key,
            layout.stages.of_one_row,
        )
        changes: dict[str, TableWithValues] = {str(name): table for name, table in self.tables.items()}
        view = replace(view, follows=stages_with_moves(view, changes))
        view = with_made_values(view, changes | self._first_rows())
        of_changes, of_base = view.branches[: len(branches)], view.branches[len(branches) :]
        source = HistorySource(
            replace(view, branches=of_changes),
            of_base[0] if of_base else None,
            self.begins_at.seq,
            self.reached.seq,
            live,
            self.emptied,
            self._stages_begin(layout),
        )
        return source, preludes

    def _first_rows(self) -> dict[str, TableWithValues]:
        """The relation of the view that is no change table."""
        return {_BASE: BaseRows(self._dataset(_BASE), self.base.position.schema_version)}

    def _stages_begin(self, layout: ViewLayout) -> tuple[Moment, ...]:
        stages = layout.stages.of_spans
        firsts = [self.spans[stages.index(stage)] for stage in range(1, stages[-1] + 1)]
        return tuple(Moment(span.begins, span.gtid, span.committed_at or None) for span in firsts)

    def _layout(self) -> ViewLayout:
        layout = history_layout(self.lifetime, key_names)
        return replace(layout, shown=tuple(map(_renamed, layout.shown)))

    def _base(self, layout: ViewLayout) -> Branch | None:
        if not self.base.snapshot.live_rows:
            return None
        version = self.base.position.schema_version
        at = next(at for at, span in enumerate(self.spans) if span.version_id == version)
        # A column that was added and is NULL in all rows may be in none of the files.
        inside = set(names_in(self._base_files()))
        there = [field for field in self.base.schema if name_in_files(field) in inside and not is_former(field)]
        in_files = {field.name: name_in_files(field) for field in there}
        sources = [
            replace(source, physical=tuple(in_files[name] for name in source.physical))
            for source in layout.column_sources(at, there)
        ]
        if INVALID_COLUMN not in inside:
            sources = [replace(source, missing="") if source.physical else source for source in sources]
        column_sources = tuple(
            ColumnSource() if source.missing and not source.physical else source for source in sources
        )
        return Branch(_BASE, (version,), column_sources, layout.stages.of_spans[at])

    def _had_key(self, span: VersionSpan, key: Sequence[str]) -> bool:
        """Whether these columns identified rows in that version."""
        by_name = {
            fold_name(column.name): value
            for column, value in zip(self.mirror.definition.columns, span.values, strict=True)
        }
        then = {fold_name(name) for name in key_columns(span.definition)}
        columns = [by_name[fold_name(name)].origin.column for name in key]
        return bool(key) and then == {
            fold_name(column_name(column.name)) if column is not None else None for column in columns
        }

    def _dataset(self, relation: str) -> ds.Dataset:
        """The files of a relation of the view."""
        if relation == _BASE:
            inside = set(names_in(self._base_files()))
            own = [pa.field(name_in_files(field), field.type) for field in self.base.schema if not is_former(field)]
            return _dataset(self._base_files(), pa.schema([field for field in own if field.name in inside]))
        (name,) = [name for name in self.tables if str(name) == relation]
        table = self.tables[name]
        files = [f"{self.urls[name]}/{path}" for path in sorted(table.files())]
        return _dataset(files, pa.schema([field for field in table.columns if field.name != INTERVAL]))

    def _base_files(self) -> list[str]:
        return [f"{self.base.url}/{path}" for path in sorted(self.base.snapshot.files)]


def _dataset(urls: Sequence[str], schema: pa.Schema) -> ds.Dataset:
    """Parquet files of one storage; columns that a file lacks are NULL in its rows."""
    opened = [arrow_file_system(url) for url in urls]
    return ds.dataset([path for _, path in opened], schema, "parquet", opened[0][0] if opened else None)


def _renamed(column: ViewColumn) -> ViewColumn:
    ours = {name for name, _ in VALIDITY}
    name = column.published
    while name in ours:
        name = f"_{name}"
    return replace(column, published=name)


def open_history(lake: str, source: str, table: str, store: sa.Engine | str) -> MirrorHistory:
    """See `strata_cdc.mirrors.history`."""
    name = TableName.parse(table)
    # SQL may be run by engines with another working directory.
    lake = lake if "://" in lake else str(Path(lake).absolute())
    mirror = Mirror.open(lake, source, name)
    if mirror is None:
        raise Usage(
            "the table has no mirror, from which its history would begin",
            source=source,
            table=table,
            remedy="Name it in `mirrors` of the settings; `strata mirror list` lists those that there are.",
        )
    engine = open_store(store, OnMissing.EMPTY) if isinstance(store, str) else store
    table_changes, removals = table_changes_of(engine, source), removals_of(engine, source)
    return history_of(lake, mirror, table_changes, removals, newest_commits(source, engine))


def history_of(
    lake: str,
    mirror: Mirror,
    table_changes: Sequence[TableChange],
    removals: Sequence[RowRemoval],
    commits: Mapping[TableName, int] = _UNKNOWN,
    reached: MirrorPosition | None = None,
    former: FormerMirror | None = None,
) -> MirrorHistory:
    """The history of a mirror.

    Args:
        lake: Folder or URL of the lake.
        mirror: The mirror as it is now.
        table_changes: The source's history, in stream order.
        removals: The rows that DDL removed from its tables.
        commits: The newest commit of each change table that is known to have been made.
        reached: The position up to which the mirror equals its table; None: what the lake has of it.
        former: Opens mirrors of the names that the table had; None: the history begins with the table's name.

    Raises:
        Usage: No state is left with which it could begin, or the mirror's version is not in the store's history.
        LostTableError: A part of a change table was deleted, or its log is not complete.
        LakeUnavailableError: The storage does not answer.
    """
    beginning = beginning_of(mirror)
    if beginning is None:
        raise Usage(
            "no state of the mirror is left that its history could begin with: vacuum has deleted its first files, and "
            "each later state has dead rows",
            source=mirror.source,
            table=str(mirror.table),
            remedy=f"Its history begins where it is made again: {MADE_AGAIN} A longer `--retain-hours` of "
            "`strata mirror vacuum` keeps more.",
        )
    lifetime = _lifetime(mirror, table_changes)
    if lifetime is None or all(span.version_id != beginning.mirror.position.schema_version for span in lifetime.spans):
        raise Usage(
            "the store does not have the versions of the mirror's table", source=mirror.source, table=str(mirror.table)
        )
    if any(discards_rows(span.definition) for span in lifetime.spans):
        raise Usage(KEEPS_NO_ROWS, source=mirror.source, table=str(mirror.table))
    if former is not None:
        beginning = earliest(beginning, lifetime, former)
    lifetime = _since(lifetime, beginning)
    outputs = {
        name: open_changes(lake, mirror.source, name, commits.get(name))
        for name in {span.name for span in lifetime.spans}
    }
    tables = {name: table for name, table in outputs.items() if table is not None}
    reached = position_now(lake, mirror) if reached is None else reached
    return _opened(lake, mirror, beginning, reached, lifetime, tables, table_changes, removals)


def _lifetime(mirror: Mirror, table_changes: Sequence[TableChange]) -> TableLifetime | None:
    """The table's lifetime up to the mirror's version."""
    version = mirror.position.schema_version
    at = next(
        (
            at
            for at, table_change in enumerate(table_changes)
            if (table_change.name, table_change.version_id) == (mirror.table, version)
        ),
        None,
    )
    return None if at is None else lifetime_of(table_changes[: at + 1], mirror.table)


def _since(lifetime: TableLifetime, beginning: Beginning) -> TableLifetime:
    """The lifetime without what is before the beginning."""
    first = next(
        at for at, span in enumerate(lifetime.spans) if span.version_id == beginning.mirror.position.schema_version
    )
    return type(lifetime)(lifetime.definition, lifetime.spans[first:], lifetime.begins)


def _opened(
    lake: str,
    mirror: Mirror,
    beginning: Beginning,
    reached: MirrorPosition,
    lifetime: TableLifetime,
    tables: dict[TableName, OutputTable],
    table_changes: Sequence[TableChange],
    removals: Sequence[RowRemoval],
) -> MirrorHistory:
    begins = beginning.mirror.position
    urls = {span.name: table_url(lake, mirror.source, span.name) for span in lifetime.spans}
    gtids = {removal.seq: removal.gtid for removal in removals if lifetime.was_called(removal.name, removal.seq)}
    emptied = [Moment(seq, gtids.get(seq), at.committed_at or None) for seq, at in beginning.emptied_at.items()]
    newest = lifetime.spans[-1].version_id
    names = [table_change for table_change in table_changes if table_change.name == mirror.table]
    known = [name.version_id for name in names[: [name.version_id for name in names].index(newest) + 1]]
    return MirrorHistory(
        lake,
        mirror,
        begins,
        reached,
        lifetime,
        urls,
        tables,
        frozenset(known),
        beginning.mirror,
        tuple(sorted(emptied, key=lambda moment: moment.seq)),
    )
