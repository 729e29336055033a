"""Mirrors from a backup: it is loaded into a temporary server of Strata, and its tables are read there as in a dump.

So the server's own code turns the backup's text into values, and these become Arrow in the same way as all other rows.
Not here: the kinds of backup (`mysqldump.py`, `shell_dump.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.errors import SchemaGapError, StrataError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.dump.backups.definitions import with_json_texts
from strata_cdc.mirrors.dump.backups.scratch_server import scratch_server
from strata_cdc.mirrors.dump.dump_table import TableDumped
from strata_cdc.mirrors.dump.dump_tables import DumpReport
from strata_cdc.mirrors.dump.exact import NotRepeatableError
from strata_cdc.mirrors.dump.finish import make_mirror
from strata_cdc.mirrors.dump.read import TableAlteredError
from strata_cdc.mirrors.dump.snapshot import refuse_inconsistent
from strata_cdc.mirrors.dump.window import DumpWindow, window_of_set
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.live.engine import LiveSchema
from strata_cdc.schema.live.masking import refuse_masked
from strata_cdc.schema.model.expressions import names_column
from strata_cdc.schema.model.types import TypeKind, parse_column_type
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.verbatim import verbatim_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.mirrors.dump.backups.scratch_server import ScratchServer
    from strata_cdc.mirrors.dump.finish import DumpSource
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName


class Backup(Protocol):
    """The state of a server at one GTID set, as another program saved it."""

    executed: Executed
    tables: set[TableName]
    """The tables with rows; known once the backup is loaded."""

    def load(self, server: ScratchServer) -> None:
        """Loads it."""
        ...


def take_in(
    source: DumpSource,
    backup: Backup,
    choose: Callable[[set[TableName]], Sequence[TableName]],
    *,
    mysqld: str | None = None,
) -> DumpReport:
    """Makes mirrors of a backup's tables; if one fails, the others are still made.

    Args:
        source: The source of which this is a backup; its stream must be landed and tracked past the backup.
        backup: The backup.
        choose: Which of its tables become mirrors.
        mysqld: The program into which it is loaded; by default the one on PATH.

    Raises:
        Usage: The stream does not reach back to the backup, or there is no mysqld.
        BadData: The backup is not complete, or cannot be loaded.
        StrataError: The only table failed.
    """
    stream = LandedStream.open(source.lake, source.name)
    window = window_of_set(stream, backup.executed)
    with scratch_server(mysqld) as server:
        backup.load(server)
        chosen = choose(backup.tables)
        outcomes = [_take(source, table, server, stream, window) for table in chosen]
    return DumpReport.from_outcomes(source.name, outcomes)


def _take(
    source: DumpSource, table: TableName, server: ScratchServer, stream: LandedStream, window: DumpWindow
) -> TableDumped | StrataError:
    try:
        return _mirror_of(source, table, server, stream, window)
    except StrataError as error:
        return error.located(source=source.name, table=str(table))
    except (TableAlteredError, NotRepeatableError) as error:
        return Usage(
            f"the backup has transactions that the stream has in another order, and among them {error}",
            source=source.name,
            table=str(table),
            remedy="`strata dump` reads the rows from the source.",
        )


def _mirror_of(
    source: DumpSource, table: TableName, server: ScratchServer, stream: LandedStream, window: DumpWindow
) -> TableDumped:
    definition = History(source.store, source.name).after(table, window.last_seq).definition
    _refuse_lossy(definition)
    loaded = with_json_texts(definition)
    with server.connect() as connection:
        # A backup that was made under a lock of the whole server would do, but no backup shows that it was.
        refuse_inconsistent(connection, table)
        _refuse_other(dict(LiveSchema(connection).tables()).get(table), loaded)
        refuse_masked(connection, table)
        prepare_session(connection)
        names = tuple(state_schema(definition).names)
        rows = SelectedRows(
            connection, ServerSelect(table, loaded, field_names=names, verbatim=verbatim_names(definition))
        )
        made = make_mirror(source, table, definition, (stream, window), iter(rows))
    source.done(table)
    return TableDumped(
        table=str(table),
        rows=rows.rows,
        bytes=rows.bytes,
        chunks=1,
        changes=made.changes,
        readings=1,
        seq=made.position.seq,
        gtid_executed=made.position.gtid_executed,
        invalid=rows.invalid,
    )


def _refuse_lossy(definition: TableDefinition) -> None:
    # Field_float::val_str prints six digits (sql/field.cc); a double has all that it needs.
    lossy = [
        column.name for column in definition.columns if parse_column_type(column.column_type).kind is TypeKind.FLOAT
    ]
    if lossy:
        raise Usage(
            f"column {', '.join(lossy)} is FLOAT, which backups hold with six digits only",
            remedy="`strata dump` reads the rows from the source, with all digits.",
        )
    # A JSON document that is read from text has doubles instead of decimals: 1.10 becomes 1.1.
    documents = [column.name for column in definition.columns if column.column_type == "json"]
    derived = [column.name for column in definition.columns if column.generated and _may_name(column, documents)]
    if derived:
        raise Usage(
            f"column {', '.join(derived)} is computed from JSON, of which backups do not hold the types of numbers",
            remedy="`strata dump` reads the rows from the source.",
        )


def _may_name(column: Column, names: Sequence[str]) -> bool:
    return any(names_column(column.generation_expression or "", name) for name in names)


def _refuse_other(definition: TableDefinition | None, loaded: TableDefinition) -> None:
    if definition is not None and list(map(_essence, definition.columns)) == list(map(_essence, loaded.columns)):
        return
    raise SchemaGapError(
        "the table is another one in the backup than in the history at its GTID set",
        remedy="`strata dump` reads the rows from the source.",
    )


def _essence(column: Column) -> tuple[object, ...]:
    """The properties of a column that affect its values."""
    return column.name, column.column_type, column.character_set, column.nullable, column.generated, column.srid
