"""ALTER TABLE: its list of steps.
Not here: columns and keys (`columns.py`, `keys.py`), the order in which the server applies the steps
(`apply/alter.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    AlterStep,
    AlterTable,
    ChangeColumn,
    Conditional,
    ConditionalStep,
    ConvertCharset,
    ConvertPartition,
    DropColumn,
    DropConstraint,
    DropKey,
    DropTables,
    RemovePartitioning,
    RemoveRows,
    RenameColumn,
    RenameKey,
    RowsGone,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    SetPeriod,
    SetVersioning,
    SetVisibility,
    SwitchKeys,
    TableOptions,
    WrittenColumn,
)
from strata_cdc.schema.ddl.columns import read_column, read_default, skip_masking_policy
from strata_cdc.schema.ddl.create import column_keys, read_period
from strata_cdc.schema.ddl.keys import key_is_next, read_constraint_or_key
from strata_cdc.schema.ddl.options import read_alter_option, read_partitioning
from strata_cdc.schema.ddl.types import read_charset_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.cursor import TokenCursor
    from strata_cdc.schema.model.definition import TableName


_REBUILT = SetOptions(TableOptions())
"""A step that only means that the table is defined anew."""


def read_alter_table(cursor: TokenCursor, *, ignore: bool = False) -> tuple[Change, ...]:
    """Reads an ALTER TABLE after the word TABLE; `ignore` is set for an ALTER IGNORE TABLE."""
    if_exists = cursor.take_all("IF", "EXISTS") or cursor.context.sql_if_exists
    name = cursor.table_name()
    skip_wait(cursor)
    steps = _Steps(cursor, name)
    while not cursor.at_end():
        steps.read_one()
        # The partitioning clause follows the list without a comma.
        if not cursor.accept(",") and not cursor.at_end() and cursor.word not in {"PARTITION", "REMOVE"}:
            cursor.fail("expected a comma")
    change = AlterTable(cursor.context, name, tuple(steps.found), steps.new_name, ignore, if_exists)
    if steps.gone is None:
        return (change,)
    removed = RemoveRows(cursor.context, (name, *steps.exchanged), steps.gone, steps.partitions)
    return (change, *steps.converted, removed)


def skip_wait(cursor: TokenCursor) -> None:
    """Skips WAIT n and NOWAIT of MariaDB."""
    if cursor.accept("WAIT"):
        cursor.integer()
    else:
        cursor.accept("NOWAIT")


class _Steps:
    """The steps of one ALTER TABLE while they are read."""

    def __init__(self, cursor: TokenCursor, name: TableName) -> None:
        self.cursor = cursor
        self.name = name
        self.found: list[AlterStep] = []
        self.new_name: TableName | None = None
        self.gone: RowsGone | None = None
        """The rows that are removed without row events."""
        self.partitions: tuple[str, ...] = ()
        self.exchanged: list[TableName] = []
        """The table that exchanges its rows with a partition."""
        self.converted: list[Change] = []
        """The table that a partition becomes, or that becomes a partition."""

    def read_one(self) -> None:
        reader = _READERS.get(self.cursor.word)
        if reader is not None:
            self.cursor.at += 1
            reader(self)
        else:
            self.found.append(SetOptions(read_alter_option(self.cursor)))

    # Columns and keys ---------------------------------------------------------------------------

    def add(self) -> None:
        cursor = self.cursor
        if cursor.word == "PARTITION":
            self.skip_partition_step()
        elif cursor.take_all("SYSTEM", "VERSIONING"):
            self.found.append(SetVersioning(versioned=True))
        elif cursor.sees("PERIOD", "FOR") or cursor.sees("PERIOD", "IF", "NOT", "EXISTS"):
            self.add_period()
        elif key_is_next(cursor):
            self.add_key()
        else:
            cursor.accept("COLUMN")
            self.add_columns()

    def add_period(self) -> None:
        period = read_period(self.cursor)
        self.found.append(_REBUILT if period is None else SetPeriod(period))

    def add_key(self) -> None:
        key = read_constraint_or_key(self.cursor)
        if key is None:
            self.found.append(_REBUILT)
        else:
            self.append(AddKey(key), conditional=key.conditional)

    def append(self, step: ConditionalStep, *, conditional: bool) -> None:
        """Adds a step; `conditional` is set for IF EXISTS and IF NOT EXISTS."""
        self.found.append(Conditional(step) if conditional else step)

    def add_columns(self) -> None:
        cursor = self.cursor
        conditional = cursor.take_all("IF", "NOT", "EXISTS")
        if not cursor.accept("("):
            column = read_column(cursor)
            self.add_column(column, self.place(), conditional=conditional)
            return
        while True:
            if key_is_next(cursor):
                self.add_key()
            elif cursor.sees("PERIOD", "FOR"):
                self.add_period()
            else:
                self.add_column(read_column(cursor), None, conditional=conditional)
            if not cursor.accept(","):
                break
        cursor.expect(")")

    def add_column(self, column: WrittenColumn, after: str | None, *, conditional: bool) -> None:
        self.append_column(AddColumn(column, after), conditional=conditional)

    def append_column(self, step: AddColumn | ChangeColumn, *, conditional: bool) -> None:
        """Adds a step with its column's keys."""
        self.append(step, conditional=conditional)
        for key in column_keys(step.column):
            self.append(AddKey(key), conditional=conditional)

    def place(self) -> str | None:
        """FIRST as '', the column of AFTER, None if neither is written."""
        if self.cursor.accept("FIRST"):
            return ""
        return self.cursor.name() if self.cursor.accept("AFTER") else None

    def change(self) -> None:
        self.cursor.accept("COLUMN")
        conditional = self.cursor.take_all("IF", "EXISTS")
        old = self.cursor.column_name()
        self.change_column(old, conditional=conditional)

    def modify(self) -> None:
        self.cursor.accept("COLUMN")
        conditional = self.cursor.take_all("IF", "EXISTS")
        begin = self.cursor.at
        old = self.cursor.column_name()
        self.cursor.at = begin
        self.change_column(old, conditional=conditional)

    def change_column(self, old: str, *, conditional: bool) -> None:
        column = read_column(self.cursor)
        self.append_column(ChangeColumn(old, column, self.place()), conditional=conditional)

    def drop(self) -> None:
        cursor = self.cursor
        if cursor.word == "PARTITION":
            self.remove_partition(RowsGone.DROPPED)
        elif cursor.take_all("SYSTEM", "VERSIONING"):
            self.found.append(SetVersioning(versioned=False))
        elif cursor.sees("PERIOD", "FOR") or cursor.sees("PERIOD", "IF", "EXISTS"):
            cursor.at += 1
            cursor.take_all("IF", "EXISTS")
            cursor.expect("FOR")
            self.found.append(_REBUILT if cursor.word == "SYSTEM_TIME" else SetPeriod(None))
            cursor.name()
        elif not self.drop_key():
            cursor.accept("COLUMN")
            conditional = cursor.take_all("IF", "EXISTS")
            self.append(DropColumn(cursor.column_name()), conditional=conditional)
            cursor.take_any("RESTRICT", "CASCADE")

    def drop_key(self) -> bool:
        cursor = self.cursor
        if cursor.word == "CONSTRAINT" and cursor.ahead(1) in {"PRIMARY", "FOREIGN"} and cursor.ahead(2) == "KEY":
            cursor.at += 1  # MariaDB
        if cursor.accept("PRIMARY"):
            cursor.expect("KEY")
            self.found.append(DropKey("PRIMARY"))
        elif cursor.take_any("KEY", "INDEX"):
            conditional = cursor.take_all("IF", "EXISTS")
            self.append(DropKey(cursor.name()), conditional=conditional)
        elif cursor.take_all("FOREIGN", "KEY") or cursor.accept("CHECK"):
            cursor.take_all("IF", "EXISTS")
            cursor.name()
            self.found.append(_REBUILT)
        elif cursor.accept("CONSTRAINT"):
            cursor.take_all("IF", "EXISTS")
            self.found.append(DropConstraint(cursor.name()))
        else:
            return False
        return True

    def alter(self) -> None:
        cursor = self.cursor
        if cursor.take_any("INDEX", "KEY"):
            conditional = cursor.take_all("IF", "EXISTS")
            name = cursor.name()
            self.append(SetKeyVisibility(name, invisible=self.visibility()), conditional=conditional)
        elif cursor.take_any("CHECK", "CONSTRAINT"):
            cursor.name()
            cursor.accept("NOT")
            cursor.expect("ENFORCED")
            self.found.append(_REBUILT)
        else:
            cursor.accept("COLUMN")
            conditional = cursor.take_all("IF", "EXISTS")
            self.alter_column(cursor.name(), conditional=conditional)

    def alter_column(self, name: str, *, conditional: bool) -> None:
        cursor = self.cursor
        if cursor.take_all("DROP", "MASKING", "POLICY"):
            return
        if cursor.take_all("SET", "MASKING"):
            skip_masking_policy(cursor)
        elif cursor.accept("DROP"):
            cursor.expect("DEFAULT")
            self.append(SetDefault(name, None), conditional=conditional)
        elif cursor.take_all("SET", "DEFAULT"):
            self.append(SetDefault(name, read_default(cursor)), conditional=conditional)
        else:
            cursor.expect("SET")
            self.found.append(SetVisibility(name, invisible=self.visibility()))

    def visibility(self) -> bool:
        if self.cursor.take_all("NOT", "IGNORED"):
            return False
        word = self.cursor.take_any("VISIBLE", "INVISIBLE", "IGNORED")
        if word is None:
            self.cursor.fail("expected VISIBLE or INVISIBLE")
        return word != "VISIBLE"

    def rename(self) -> None:
        cursor = self.cursor
        kind = cursor.take_any("KEY", "INDEX", "COLUMN")
        if kind is not None:
            conditional = cursor.take_all("IF", "EXISTS")
            old = cursor.name()
            cursor.expect("TO")
            step = RenameColumn if kind == "COLUMN" else RenameKey
            self.append(step(old, cursor.name()), conditional=conditional)
        else:
            cursor.take_any("TO", "AS", "=")
            self.new_name = cursor.table_name()

    # The table ----------------------------------------------------------------------------------

    def convert(self) -> None:
        cursor = self.cursor
        if cursor.word == "PARTITION":
            self.convert_partition()
            return
        if cursor.accept("TABLE"):
            self.convert_table()
            return
        cursor.expect("TO")
        if not (cursor.accept("CHARSET") or cursor.take_all("CHARACTER", "SET") or cursor.take_all("CHAR", "SET")):
            cursor.fail("expected CHARACTER SET")
        charset = "" if cursor.accept("DEFAULT") else read_charset_name(cursor)
        collation = None
        if cursor.accept("COLLATE"):
            cursor.accept("=")
            collation = read_charset_name(cursor)
        self.found.append(ConvertCharset(charset, collation))

    def convert_partition(self) -> None:
        """CONVERT PARTITION p TO TABLE t."""
        self.remove_rows(RowsGone.PARTITIONS)
        self.cursor.expect("TO")
        self.cursor.expect("TABLE")
        self.converted.append(ConvertPartition(self.cursor.context, self.cursor.table_name(), self.name))
        self.skip_partition_step()

    def convert_table(self) -> None:
        """CONVERT TABLE t TO PARTITION p VALUES ..."""
        self.gone = RowsGone.CONVERTED
        self.converted.append(DropTables(self.cursor.context, (self.cursor.table_name(),)))
        self.skip_partition_step()

    def order(self) -> None:
        """ORDER BY reads the list up to the first token that is not a column."""
        cursor = self.cursor
        cursor.expect("BY")
        self.found.append(_REBUILT)
        while True:
            cursor.name()
            while cursor.accept("."):
                cursor.name()
            cursor.take_any("ASC", "DESC")
            if cursor.word != "," or _READERS.get(cursor.ahead(1)) is not None:
                return
            cursor.at += 1

    def partition(self) -> None:
        cursor = self.cursor
        cursor.at -= 1
        text = read_partitioning(cursor)
        self.found.append(SetOptions(TableOptions(partitioning=text)))

    def remove(self) -> None:
        self.cursor.expect("PARTITIONING")
        self.found.append(RemovePartitioning())

    def force(self) -> None:
        self.found.append(_REBUILT)

    def switch_keys(self) -> None:
        """ENABLE KEYS, DISABLE KEYS."""
        self.cursor.expect("KEYS")
        self.found.append(SwitchKeys())

    def algorithm(self) -> None:
        """ALGORITHM; COPY defines the table anew even if no other step does."""
        self.cursor.accept("=")
        if self.cursor.accept("COPY"):
            self.found.append(_REBUILT)
        else:
            self.skip_to_comma()

    def with_versioning(self) -> None:
        """WITH SYSTEM VERSIONING; WITH VALIDATION."""
        if self.cursor.take_all("SYSTEM", "VERSIONING"):
            self.found.append(SetVersioning(versioned=True))
        else:
            self.skip_to_comma()

    def step_without_effect(self) -> None:
        """LOCK, VALIDATION and similar steps."""
        self.skip_to_comma()

    def discard(self) -> None:
        """DISCARD TABLESPACE, DISCARD PARTITION ... TABLESPACE."""
        self.remove_rows(RowsGone.ALL)
        self.step_without_effect()

    def import_tablespace(self) -> None:
        """IMPORT TABLESPACE, IMPORT PARTITION ... TABLESPACE."""
        self.remove_rows(RowsGone.ALL)
        self.gone = RowsGone.IMPORTED
        self.step_without_effect()

    def exchange_partition(self) -> None:
        """EXCHANGE PARTITION p WITH TABLE t."""
        cursor = self.cursor
        self.remove_rows(RowsGone.EXCHANGED)
        while not cursor.at_end() and not cursor.take_all("WITH", "TABLE"):
            cursor.at += 1
        self.exchanged.append(cursor.table_name())
        self.skip_partition_step()

    def truncate_partition(self) -> None:
        """TRUNCATE PARTITION."""
        self.remove_partition(RowsGone.PARTITIONS)

    def remove_partition(self, gone: RowsGone) -> None:
        """DROP, TRUNCATE PARTITION."""
        self.remove_rows(gone)
        self.skip_partition_step()

    def remove_rows(self, gone: RowsGone) -> None:
        """Reads the names of partitions; ALL, or no name, means all rows."""
        cursor = self.cursor
        self.gone = gone
        if not cursor.accept("PARTITION"):
            return
        cursor.take_all("IF", "EXISTS")
        if cursor.word == "ALL":
            self.gone = RowsGone.ALL
            return
        self.gone = gone if gone in {RowsGone.EXCHANGED, RowsGone.DROPPED} else RowsGone.PARTITIONS
        names = []
        while not cursor.at_end() and cursor.sees_name():
            names.append(cursor.name())
            if not cursor.accept(","):
                break
        self.partitions = tuple(names)

    def skip_partition_step(self) -> None:
        """ADD, REORGANIZE, ANALYZE ... PARTITION: no column changes, and nothing follows it."""
        while not self.cursor.at_end():
            self.cursor.at += 1

    def skip_to_comma(self) -> None:
        cursor = self.cursor
        while not cursor.at_end() and cursor.word != ",":
            cursor.skip_part()


_READERS: dict[str, Callable[[_Steps], None]] = {
    "ADD": _Steps.add,
    "CHANGE": _Steps.change,
    "MODIFY": _Steps.modify,
    "DROP": _Steps.drop,
    "ALTER": _Steps.alter,
    "RENAME": _Steps.rename,
    "CONVERT": _Steps.convert,
    "ORDER": _Steps.order,
    "PARTITION": _Steps.partition,
    "REMOVE": _Steps.remove,
    "FORCE": _Steps.force,
    "DISABLE": _Steps.switch_keys,
    "ENABLE": _Steps.switch_keys,
    "DISCARD": _Steps.discard,
    "IMPORT": _Steps.import_tablespace,
    "ALGORITHM": _Steps.algorithm,
    "LOCK": _Steps.step_without_effect,
    "WITH": _Steps.with_versioning,
    "WITHOUT": _Steps.step_without_effect,
    "SECONDARY_LOAD": _Steps.step_without_effect,
    "SECONDARY_UNLOAD": _Steps.step_without_effect,
    "TRUNCATE": _Steps.truncate_partition,
    "COALESCE": _Steps.skip_partition_step,
    "REORGANIZE": _Steps.skip_partition_step,
    "EXCHANGE": _Steps.exchange_partition,
    "ANALYZE": _Steps.skip_partition_step,
    "CHECK": _Steps.skip_partition_step,
    "OPTIMIZE": _Steps.skip_partition_step,
    "REBUILD": _Steps.skip_partition_step,
    "REPAIR": _Steps.skip_partition_step,
}
