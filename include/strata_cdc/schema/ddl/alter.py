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
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropKey,
    RemovePartitioning,
    RemoveRows,
    RenameColumn,
    RenameKey,
    RowsGone,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    SetVisibility,
    SwitchKeys,
    TableOptions,
    WrittenColumn,
)
from strata_cdc.schema.ddl.columns import read_column, read_default
from strata_cdc.schema.ddl.create import column_keys
from strata_cdc.schema.ddl.keys import KEY_STARTS, read_constraint_or_key
from strata_cdc.schema.ddl.options import read_alter_option, read_partitioning
from strata_cdc.schema.ddl.types import read_charset_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.ddl.cursor import TokenCursor
    from strata_cdc.schema.model.definition import TableName


_REBUILT = SetOptions(TableOptions())
"""A step that only means that the table is defined anew."""


def read_alter_table(cursor: TokenCursor, *, ignore: bool = False) -> tuple[AlterTable | RemoveRows, ...]:
    """Reads an ALTER TABLE after the word TABLE; `ignore` is set for an ALTER IGNORE TABLE."""
    name = cursor.table_name()
    steps = _Steps(cursor)
    while not cursor.at_end():
        steps.read_one()
        # The partitioning clause follows the list without a comma.
        if not cursor.accept(",") and not cursor.at_end() and cursor.word not in {"PARTITION", "REMOVE"}:
            cursor.fail("expected a comma")
    change = AlterTable(cursor.context, name, tuple(steps.found), steps.new_name, ignore)
    if steps.gone is None:
        return (change,)
    return change, RemoveRows(cursor.context, (name, *steps.exchanged), steps.gone, steps.partitions)


class _Steps:
    """The steps of one ALTER TABLE while they are read."""

    def __init__(self, cursor: TokenCursor) -> None:
        self.cursor = cursor
        self.found: list[AlterStep] = []
        self.new_name: TableName | None = None
        self.gone: RowsGone | None = None
        """The rows that are removed without row events."""
        self.partitions: tuple[str, ...] = ()
        self.exchanged: list[TableName] = []
        """The table that exchanges its rows with a partition."""

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
            return
        if cursor.word in KEY_STARTS:
            key = read_constraint_or_key(cursor)
            self.found.append(_REBUILT if key is None else AddKey(key))
            return
        cursor.accept("COLUMN")
        if not cursor.accept("("):
            column = read_column(cursor)
            self.add_column(column, self.place())
            return
        while True:
            if cursor.word in KEY_STARTS:
                key = read_constraint_or_key(cursor)
                self.found.append(_REBUILT if key is None else AddKey(key))
            else:
                self.add_column(read_column(cursor), None)
            if not cursor.accept(","):
                break
        cursor.expect(")")

    def add_column(self, column: WrittenColumn, after: str | None) -> None:
        self.found.append(AddColumn(column, after))
        self.found.extend(AddKey(key) for key in column_keys(column))

    def place(self) -> str | None:
        """FIRST as '', the column of AFTER, None if neither is written."""
        if self.cursor.accept("FIRST"):
            return ""
        return self.cursor.name() if self.cursor.accept("AFTER") else None

    def change(self) -> None:
        self.cursor.accept("COLUMN")
        old = self.cursor.name()
        self.change_column(old)

    def modify(self) -> None:
        self.cursor.accept("COLUMN")
        begin = self.cursor.at
        old = self.cursor.name()
        self.cursor.at = begin
        self.change_column(old)

    def change_column(self, old: str) -> None:
        column = read_column(self.cursor)
        self.found.append(ChangeColumn(old, column, self.place()))
        self.found.extend(AddKey(key) for key in column_keys(column))

    def drop(self) -> None:
        cursor = self.cursor
        word = cursor.word
        if word == "PARTITION":
            self.remove_partition()
        elif cursor.accept("PRIMARY"):
            cursor.expect("KEY")
            self.found.append(DropKey("PRIMARY"))
        elif cursor.take_any("KEY", "INDEX"):
            self.found.append(DropKey(cursor.name()))
        elif cursor.take_all("FOREIGN", "KEY") or cursor.accept("CHECK"):
            cursor.name()
            self.found.append(_REBUILT)
        elif cursor.accept("CONSTRAINT"):
            self.found.append(DropConstraint(cursor.name()))
        else:
            cursor.accept("COLUMN")
            self.found.append(DropColumn(cursor.name()))
            cursor.take_any("RESTRICT", "CASCADE")

    def alter(self) -> None:
        cursor = self.cursor
        if cursor.take_any("INDEX", "KEY"):
            name = cursor.name()
            self.found.append(SetKeyVisibility(name, invisible=self.visibility()))
        elif cursor.take_any("CHECK", "CONSTRAINT"):
            cursor.name()
            cursor.accept("NOT")
            cursor.expect("ENFORCED")
            self.found.append(_REBUILT)
        else:
            cursor.accept("COLUMN")
            self.alter_column(cursor.name())

    def alter_column(self, name: str) -> None:
        cursor = self.cursor
        if cursor.accept("DROP"):
            cursor.expect("DEFAULT")
            self.found.append(SetDefault(name, None))
        elif cursor.take_all("SET", "DEFAULT"):
            self.found.append(SetDefault(name, read_default(cursor)))
        else:
            cursor.expect("SET")
            self.found.append(SetVisibility(name, invisible=self.visibility()))

    def visibility(self) -> bool:
        word = self.cursor.take_any("VISIBLE", "INVISIBLE")
        if word is None:
            self.cursor.fail("expected VISIBLE or INVISIBLE")
        return word == "INVISIBLE"

    def rename(self) -> None:
        cursor = self.cursor
        if cursor.take_any("KEY", "INDEX"):
            old = cursor.name()
            cursor.expect("TO")
            self.found.append(RenameKey(old, cursor.name()))
        elif cursor.accept("COLUMN"):
            old = cursor.name()
            cursor.expect("TO")
            self.found.append(RenameColumn(old, cursor.name()))
        else:
            cursor.take_any("TO", "AS", "=")
            self.new_name = cursor.table_name()

    # The table ----------------------------------------------------------------------------------

    def convert(self) -> None:
        cursor = self.cursor
        if cursor.accept("PARTITION"):
            self.skip_to_comma()
            return
        cursor.expect("TO")
        if not (cursor.accept("CHARSET") or cursor.take_all("CHARACTER", "SET") or cursor.take_all("CHAR", "SET")):
            cursor.fail("expected CHARACTER SET")
        charset = "" if cursor.accept("DEFAULT") else read_charset_name(cursor)
        collation = None
        if cursor.accept("COLLATE"):
            cursor.accept("=")
            collation = None if cursor.accept("DEFAULT") else read_charset_name(cursor)
        self.found.append(ConvertCharset(charset, collation))

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

    def remove_partition(self) -> None:
        """DROP, TRUNCATE PARTITION."""
        self.remove_rows(RowsGone.PARTITIONS)
        self.skip_partition_step()

    def remove_rows(self, gone: RowsGone) -> None:
        """Reads the names of partitions; ALL, or no name, means all rows."""
        cursor = self.cursor
        self.gone = gone
        if not cursor.accept("PARTITION"):
            return
        if cursor.word == "ALL":
            self.gone = RowsGone.ALL
            return
        self.gone = gone if gone is RowsGone.EXCHANGED else RowsGone.PARTITIONS
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
            if cursor.word == "(":
                cursor.skip_parentheses()
            else:
                cursor.at += 1


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
    "WITH": _Steps.step_without_effect,
    "WITHOUT": _Steps.step_without_effect,
    "SECONDARY_LOAD": _Steps.step_without_effect,
    "SECONDARY_UNLOAD": _Steps.step_without_effect,
    "TRUNCATE": _Steps.remove_partition,
    "COALESCE": _Steps.skip_partition_step,
    "REORGANIZE": _Steps.skip_partition_step,
    "EXCHANGE": _Steps.exchange_partition,
    "ANALYZE": _Steps.skip_partition_step,
    "CHECK": _Steps.skip_partition_step,
    "OPTIMIZE": _Steps.skip_partition_step,
    "REBUILD": _Steps.skip_partition_step,
    "REPAIR": _Steps.skip_partition_step,
}
