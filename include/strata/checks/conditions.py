"""Users' conditions on the rows of an expectation, as the judged frames take them.
Not here: what a condition means (`dialects/conditions/`), our own rules' conditions (`rules.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata.checks.rules import frame_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata.checks.rules import Exemptions, Rule
    from strata.schema.model.definition import TableDefinition, TableName


def conditioned(
    rule: Rule,
    table: TableName,
    definition: TableDefinition,
    others: Mapping[int, TableDefinition],
    names: Mapping[str, str],
    exempt: Exemptions,
) -> Rule | None:
    """The rule for the rows of one version; None if that lacks a column that the condition names.

    Of rows whose image lacks such a column, or whose value has no type, nobody knows whether the condition holds: they
    are exempt, as they are from the rules that follow from the schema.

    Args:
        rule: The user's.
        table: The table.
        definition: The version.
        others: All versions of the batch, of which one at least has to have the columns.
        names: From a column to what the change table calls it.
        exempt: What is exempt in the batch.

    Raises:
        ConditionError: The text is no condition on any version of the table; says where.
    """
    if rule.where is None:
        return rule
    # Imported here: few have conditions, and sqlglot takes a third of a second.
    from strata.dialects.conditions.condition import parse  # noqa: PLC0415  see above
    from strata.dialects.conditions.read import UnknownColumnError  # noqa: PLC0415  see above

    try:
        condition = parse(rule.where, definition, str(table))
    except UnknownColumnError:
        if any(_is_read(rule.where, other, table) for other in others.values()):
            return None
        raise
    frame = {name: frame_column(published) for name, published in names.items()}
    parts = [exempt.selection(column).sql() for column in definition.columns if column.name in condition.columns]
    return replace(rule, condition=" AND ".join([*dict.fromkeys(parts), f"({condition.spark(frame)})"]))


def _is_read(where: str, definition: TableDefinition, table: TableName) -> bool:
    from strata.dialects.conditions.condition import parse  # noqa: PLC0415  as above
    from strata.dialects.conditions.read import UnknownColumnError  # noqa: PLC0415  as above

    try:
        parse(where, definition, str(table))
    except UnknownColumnError:
        return False
    return True
