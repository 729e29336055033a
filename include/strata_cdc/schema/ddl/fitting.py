"""The steps of an ALTER TABLE that the server carries out: IF EXISTS and IF NOT EXISTS of MariaDB depend on the table.
Not here: reading them (`alter.py`), the effect of the steps (`schema/apply/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    ChangeColumn,
    Conditional,
    DropColumn,
    DropKey,
    RenameColumn,
    RenameKey,
    SetDefault,
    SetKeyVisibility,
    SetOptions,
    TableOptions,
)
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import AlterStep, AlterTable, ConditionalStep
    from strata_cdc.schema.model.definition import TableDefinition


def fitting(change: AlterTable, before: TableDefinition) -> AlterTable:
    """The statement with only the steps that fit the table, none of them with a condition. Conditions are about the
    table before the statement (sql/sql_table.cc, `handle_if_exists_options`)."""
    if not any(isinstance(step, Conditional) for step in change.steps):
        return change
    steps: list[AlterStep] = []
    for step in change.steps:
        if not isinstance(step, Conditional):
            steps.append(step)
        elif not _fits(step.step, before):
            if _defines_anew(step.step):
                steps.append(SetOptions(TableOptions()))
        elif not _is_added_twice(step.step, steps):
            steps.append(step.step)
    return replace(change, steps=tuple(steps))


def _fits(step: ConditionalStep, before: TableDefinition) -> bool:
    match step:
        case AddColumn():
            return before.column(step.column.name) is None
        case ChangeColumn() | RenameColumn():
            return before.column(step.old) is not None
        case DropColumn() | SetDefault():
            return before.column(step.name) is not None
        case AddKey():
            name = step.key.name or step.key.parts[0].column or ""
            return not _has_key(before, name)
        case RenameKey():
            return _has_key(before, step.old)
        case DropKey() | SetKeyVisibility():
            return _has_key(before, step.name)


def _defines_anew(step: ConditionalStep) -> bool:
    """Whether a step that does not fit defines the table anew all the same (11.8, 10.11). A CHANGE does, a MODIFY does
    not."""
    if isinstance(step, ChangeColumn):
        return step.old != step.column.name
    return isinstance(step, RenameColumn | RenameKey | SetKeyVisibility)


def _has_key(before: TableDefinition, name: str) -> bool:
    folded = fold_name(name)
    return any(fold_name(key.name) == folded for key in before.keys)


def _is_added_twice(step: ConditionalStep, steps: list[AlterStep]) -> bool:
    made = _made_by(step) if isinstance(step, AddColumn | AddKey) else None
    return made is not None and any(_made_by(each) == made for each in steps)


def _made_by(step: AlterStep) -> tuple[str, str] | None:
    """The column or key that a step makes, by its folded name; a key without a name is compared by its first column."""
    if isinstance(step, AddColumn | ChangeColumn):
        return "column", fold_name(step.column.name)
    if isinstance(step, AddKey) and not step.key.foreign:
        return "key", fold_name(step.key.name or step.key.parts[0].column or "")
    return None
