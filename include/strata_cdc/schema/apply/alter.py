"""A table's definition after ALTER TABLE: the steps in the server's order.
Not here: single columns (`columns.py`), CONVERT TO (`convert.py`), the new name (`schema/replay/catalog.py`).

The order is that of `prepare_fields_and_keys` in sql/sql_table.cc: first the old columns are dropped, replaced or
renamed where they are, then the steps that move columns run in the order of the statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import DdlError
from strata_cdc.schema.apply.charset import charset_of, collation_for
from strata_cdc.schema.apply.columns import WIDTHS_HIDDEN_SINCE, column_from, column_text, with_changed_default
from strata_cdc.schema.apply.convert import Conversion, conversion_of
from strata_cdc.schema.apply.create import with_primary_not_null
from strata_cdc.schema.apply.keys import MariadbKeys, primary_columns, with_keys, with_period_columns
from strata_cdc.schema.apply.limits import possible_limits
from strata_cdc.schema.apply.placed import PlacedColumn
from strata_cdc.schema.apply.surviving import surviving_keys
from strata_cdc.schema.apply.system_time import with_period_not_null, with_row_times, without_row_end
from strata_cdc.schema.apply.timestamps import with_implicit_timestamps
from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    ChangeColumn,
    ConvertCharset,
    DropColumn,
    DropKey,
    RemovePartitioning,
    RenameColumn,
    SetDefault,
    SetOptions,
    SetPeriod,
    SetVersioning,
    SetVisibility,
)
from strata_cdc.schema.ddl.fitting import fitting
from strata_cdc.schema.model.charsets import default_collation
from strata_cdc.schema.model.definition import ApplicationPeriod, KeyKind, TableDefinition
from strata_cdc.schema.model.expressions import new_names, with_renamed
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_times import ROW_TIMES
from strata_cdc.schema.model.types import INTEGERS, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, AlterTable
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import Column, Key

GENERATED_KEY = "my_row_id"
"""The generated invisible primary key (`sql_generate_invisible_primary_key`)."""
_INNODB = "innodb"


def altered(definition: TableDefinition, change: AlterTable, database_collation: str | None) -> TableDefinition:
    """The definition that an ALTER TABLE makes from `definition`.

    Args:
        definition: The definition before.
        change: The statement.
        database_collation: Default of the table's database, for CONVERT TO CHARACTER SET DEFAULT.

    Raises:
        DdlError: The statement does not fit the definition, so one of the two is not what the server had.
    """
    change = fitting(change, definition)
    _refuse_doubtful_foreign_keys(definition, change)
    if change.keeps_definition:
        return definition
    return _Altering(definition, change, database_collation).run()


def _refuse_doubtful_foreign_keys(definition: TableDefinition, change: AlterTable) -> None:
    """ADD FOREIGN KEY IF NOT EXISTS of MariaDB renames the index of an equal foreign key, if the name is a new one."""
    for step in change.steps:
        if isinstance(step, AddKey) and step.key.foreign and step.key.conditional:
            names = [fold_name(part.column or "") for part in step.key.parts]
            for key in definition.keys:
                if key.generated and [fold_name(part.column or "") for part in key.parts][: len(names)] == names:
                    raise DdlError(f"whether the table had foreign key {step.key.name} before is not known")


class _Altering:
    """The processing of one ALTER TABLE."""

    def __init__(self, definition: TableDefinition, change: AlterTable, database_collation: str | None) -> None:
        self.before = replace(definition, columns=with_row_times(definition.columns, versioned=False))
        """Without hidden columns, which no step names."""
        self.unchanged = definition
        self.context: DdlContext = change.context
        self.steps = change.steps
        self.period = self.period_after()
        self.versioned = self.versioned_after()
        self.renamed = change.new_name is not None
        self.database_collation = database_collation
        self.conversion: Conversion | None = None
        self.placed: list[PlacedColumn] = []
        self.touched: dict[str, _Touch] = {}
        """By folded name, until the column is there: MariaDB accepts ALTER COLUMN and MODIFY of a column that the same
        statement adds."""

    def run(self) -> TableDefinition:
        collation = self.table_collation()
        written = self.written_columns(collation)
        self.walk_old_columns(written)
        self.place_columns(written)
        for placed, column in zip(
            self.placed, with_period_not_null([placed.column for placed in self.placed], self.period), strict=True
        ):
            placed.column = column
        columns = self.after_renames()
        mariadb = self.context.flavour.is_mariadb()
        kept = [
            replace(key, hashed=False) for key in surviving_keys(self.before, self.steps, self.placed, mariadb=mariadb)
        ]
        engine, row_format = self.storage()
        added = [step.key for step in self.steps if isinstance(step, AddKey)]
        keys = with_keys(
            kept,
            with_period_columns(added, self.period),
            columns,
            possible_limits(engine, row_format, self.context),
            MariadbKeys.from_engine(engine, self.context.flavour),
        )
        if self.rebuilds_nothing(keys):
            return self.unchanged
        if MariadbKeys.is_memory_left(self.before.engine, engine):
            keys = tuple(self.maybe_hashed(key) for key in keys)
        columns = with_implicit_timestamps(self.placed, primary_columns(keys), self.context)
        columns = with_primary_not_null(columns, keys)
        if self.context.flavour.is_mysql(*WIDTHS_HIDDEN_SINCE):
            columns = [self.without_width(column) for column in columns]
        return TableDefinition(
            columns=with_row_times(columns, versioned=self.versioned),
            keys=without_row_end(keys, columns) if self.versioned else keys,
            character_set=charset_of(collation).name if collation else None,
            collation=collation,
            engine=engine,
            options=self.partitioning(),
            row_format=row_format,
            versioned=self.versioned,
            period=self.period,
            sequence=self.sequence_after(),
        )

    def maybe_hashed(self, key: Key) -> Key:
        """A unique key of a MEMORY table that gets another engine: with USING HASH it is kept by a hash then, and a
        definition does not have that."""
        is_old = any(fold_name(old.name) == fold_name(key.name) for old in self.before.keys)
        return replace(key, hashed=None) if is_old and key.kind is KeyKind.UNIQUE and key.hashed is False else key

    def period_after(self) -> ApplicationPeriod | None:
        """The period; CHANGE cannot rename its columns (11.8)."""
        period = self.before.period
        renamed = {fold_name(step.old): step.new for step in self.steps if isinstance(step, RenameColumn)}
        if period is not None and renamed:
            bounds = (renamed.get(fold_name(bound), bound) for bound in (period.start, period.end))
            period = ApplicationPeriod(period.name, *bounds)
        periods = [step.period for step in self.steps if isinstance(step, SetPeriod)]
        return periods[-1] if periods else period

    def versioned_after(self) -> bool:
        settings = [
            step.versioned if isinstance(step, SetVersioning) else True
            for step in self.steps
            if isinstance(step, SetVersioning) or (isinstance(step, SetOptions) and step.options.versioned)
        ]
        return settings[-1] if settings else self.before.versioned

    def sequence_after(self) -> bool:
        """SEQUENCE=1 makes a sequence of a table that has the columns of one, and SEQUENCE=0 a table of a sequence."""
        settings = [step.options.sequence for step in self.steps if isinstance(step, SetOptions)]
        written = [setting for setting in settings if setting is not None]
        return written[-1] if written else self.before.sequence

    def rebuilds_nothing(self, keys: Sequence[Key]) -> bool:
        """Whether keys are dropped and added again unchanged. The server ignores that: they keep their visibility,
        whatever the statement has (`fill_alter_inplace_info` does not compare it)."""
        if self.renamed or any(not isinstance(step, DropKey) and not _adds_plain_key(step) for step in self.steps):
            return False
        return [replace(key, invisible=False) for key in keys] == [
            replace(key, invisible=False) for key in self.before.keys
        ]

    def table_collation(self) -> str | None:
        """The table's default collation afterwards; CONVERT TO sets it too."""
        collation = self.before.collation
        is_mariadb = self.context.flavour.is_mariadb()
        written: str | None = None
        named: str | None = None
        """A collation that the statement names. The name of its charset, if it comes later, does not change it."""
        for step in self.steps:
            if isinstance(step, ConvertCharset):
                self.conversion = self.converted(step)
                collation = self.conversion.collation
                # To MariaDB, CONVERT TO and the default have each their own collation.
                if not is_mariadb:
                    named = collation if step.collation else None
            elif isinstance(step, SetOptions) and (step.options.charset is not None or step.options.collation):
                charset = step.options.charset
                inherited = self.database_collation if charset == "" else collation
                collation = collation_for(charset, step.options.collation, inherited, self.context)
                if step.options.collation:
                    named = collation
                elif named and collation and charset_of(named) == charset_of(collation):
                    collation = named
                written = collation
        # To MariaDB the order does not matter: the default that is written is that of the table.
        return written if written is not None and is_mariadb else collation

    def converted(self, step: ConvertCharset) -> Conversion:
        """The conversion; for MariaDB a collation that an earlier one names stays, as both must have one charset."""
        conversion = conversion_of(step, self.database_collation, self.context)
        earlier = self.conversion
        return earlier if earlier and not step.collation and self.context.flavour.is_mariadb() else conversion

    def written_columns(self, collation: str | None) -> dict[int, Column]:
        """The columns that the statement defines, by the index of their step."""
        converted_to = self.conversion.collation if self.conversion else None
        changed = self.collation_of_changed(collation)
        return {
            number: column_from(
                step.column, changed if isinstance(step, ChangeColumn) else collation, self.context, converted_to
            )
            for number, step in enumerate(self.steps)
            if isinstance(step, AddColumn | ChangeColumn)
        }

    def collation_of_changed(self, collation: str | None) -> str | None:
        """The collation that an existing column inherits. If the statement makes utf8mb4 the default, it is the
        server's own collation; `default_collation_for_utf8mb4` affects only added columns (9.7)."""
        options = [step.options for step in self.steps if isinstance(step, SetOptions)]
        if (
            collation is None
            or not any(option.charset for option in options)
            or any(option.collation for option in options)
        ):
            return collation
        charset = charset_of(collation).name
        is_own = charset == "utf8mb4" and self.context.flavour.is_mysql()
        return default_collation(charset, self.context.flavour) if is_own else collation

    # Columns ------------------------------------------------------------------------------------

    def walk_old_columns(self, written: dict[int, Column]) -> None:
        drops = {fold_name(step.name) for step in self.steps if isinstance(step, DropColumn)}
        changes = {
            fold_name(step.old): (step, written[number])
            for number, step in enumerate(self.steps)
            if isinstance(step, ChangeColumn)
        }
        touched = self.touched = self.touched_columns()
        for column in self.before.columns:
            name = fold_name(column.name)
            if name in drops:
                drops.discard(name)
            elif name in changes:
                step, new = changes.pop(name)
                if self.conversion:
                    new = self.conversion.modified(new, column, step.column.type)
                self.placed.append(PlacedColumn(new, column, step.column))
            else:
                new = touched.pop(name)(column) if name in touched else column
                self.placed.append(PlacedColumn(self.conversion.converted(new) if self.conversion else new, column))
        added = {fold_name(step.column.name) for step in self.steps if isinstance(step, AddColumn)}
        missing = [*drops, *(name for name in (*changes, *touched) if name not in added)]
        if missing:
            raise DdlError(f"column {missing[0]}, which the statement names, is not in the table")

    def touched_columns(self) -> dict[str, _Touch]:
        """Columns that are renamed, or get another default or visibility."""
        touched_columns: dict[str, _Touch] = {}
        for step in self.steps:
            if isinstance(step, RenameColumn):
                touched_columns.setdefault(fold_name(step.old), _Touch(self.context)).new_name = step.new
            elif isinstance(step, SetDefault | SetVisibility):
                touched_columns.setdefault(fold_name(step.name), _Touch(self.context)).steps.append(step)
        return touched_columns

    def after_renames(self) -> list[Column]:
        """The columns; what the statement does not write anew has the new names of renamed columns."""
        names = new_names((placed.old, placed.column) for placed in self.placed if placed.old is not None)
        if names:
            for placed in self.placed:
                if placed.old is not None and placed.written is None:
                    placed.column = _with_renamed(placed.column, names)
        return [placed.column for placed in self.placed]

    def place_columns(self, written: dict[int, Column]) -> None:
        for number, step in enumerate(self.steps):
            if isinstance(step, AddColumn):
                touch = self.touched.pop(fold_name(step.column.name), None)
                column = touch(written[number]) if touch else written[number]
                self.insert(PlacedColumn(column, None, step.column), step.after)
            elif isinstance(step, ChangeColumn):
                self.place_changed(step, written[number])

    def place_changed(self, step: ChangeColumn, written: Column) -> None:
        """Moves a column that is not new; replaces a new one."""
        moved = next((each for each in self.placed if each.old is not None and _is_named(each.old, step.old)), None)
        if moved is None:
            self.placed = [each for each in self.placed if each.old is not None or not _is_named(each.column, step.old)]
            self.insert(PlacedColumn(written, None, step.column), step.after)
        elif step.after is not None:
            self.placed.remove(moved)
            self.insert(moved, step.after)

    def insert(self, placed: PlacedColumn, after: str | None) -> None:
        if after is None:
            self.placed.append(placed)
        elif after == "":
            begins_with_key = self.placed and self.placed[0].old in self.generated_key()
            self.placed.insert(1 if begins_with_key else 0, placed)
        else:
            ordinal = next(
                (n for n, placed_column in enumerate(self.placed) if _is_named(placed_column.column, after)), None
            )
            if ordinal is None:
                raise DdlError(f"column {after}, named by AFTER, is not in the table")
            self.placed.insert(ordinal + 1, placed)

    def generated_key(self) -> tuple[Column, ...]:
        """The generated invisible primary key that the table had before: whatever else the statement does to it, no
        column comes before it. Tables of other engines than InnoDB have none."""
        first, (engine, _) = self.before.columns[0], self.storage()
        is_only_key = any(
            key.kind is KeyKind.PRIMARY and [fold_name(part.column or "") for part in key.parts] == [GENERATED_KEY]
            for key in self.before.keys
        )
        engines = {(each or _INNODB).lower() for each in (self.before.engine, engine)}
        return (first,) if is_only_key and is_generated_key(first) and engines == {_INNODB} else ()

    def without_width(self, column: Column) -> Column:
        """A display width that an older server showed is removed when a newer server rebuilds the table."""
        if "(" not in column.column_type:
            return column
        column_type = parse_column_type(column.column_type)
        if column_type.kind not in INTEGERS and column_type.kind is not TypeKind.YEAR:
            return column
        shown = column_text(column_type, self.context.flavour)
        return column if shown == column.column_type else replace(column, column_type=shown)

    # The table ----------------------------------------------------------------------------------

    def storage(self) -> tuple[str | None, str | None]:
        """Engine and row format afterwards."""
        engine, row_format = self.before.engine, self.before.row_format
        for step in self.steps:
            if isinstance(step, SetOptions):
                engine = step.options.engine or engine
                row_format = step.options.row_format or row_format
        return engine, row_format

    def partitioning(self) -> str:
        text = self.before.options
        for step in self.steps:
            if isinstance(step, RemovePartitioning):
                text = ""
            elif isinstance(step, SetOptions) and step.options.partitioning is not None:
                text = step.options.partitioning
        return text


class _Touch:
    """The effect of RENAME COLUMN and ALTER COLUMN on one column."""

    def __init__(self, context: DdlContext) -> None:
        self.context = context
        self.new_name: str | None = None
        self.steps: list[SetDefault | SetVisibility] = []

    def __call__(self, column: Column) -> Column:
        for step in self.steps:
            if isinstance(step, SetVisibility):
                column = replace(column, invisible=step.invisible)
            else:
                column = with_changed_default(column, step.default, self.context)
        return replace(column, name=self.new_name) if self.new_name is not None else column


def _adds_plain_key(step: AlterStep) -> bool:
    return isinstance(step, AddKey) and not step.key.options and not step.key.foreign


def is_generated_key(column: Column) -> bool:
    """Whether it is the column that `sql_generate_invisible_primary_key` makes."""
    has_form = column.invisible and column.auto_increment and not column.nullable
    return has_form and column.column_type == "bigint unsigned" and fold_name(column.name) == GENERATED_KEY


def _with_renamed(column: Column, names: Mapping[str, str]) -> Column:
    if column.default is not None and column.default_is_expression:
        column = replace(column, default=with_renamed(column.default, names))
    if column.generation_expression is None or column.generation_expression in ROW_TIMES:
        return column
    return replace(column, generation_expression=with_renamed(column.generation_expression, names))


def _is_named(column: Column, name: str) -> bool:
    return fold_name(column.name) == fold_name(name)
