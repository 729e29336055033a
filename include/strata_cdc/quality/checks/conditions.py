"""Users' conditions on the rows of an expectation, as the judged frames take them.
Not here: what a condition means (`dialects/conditions/`), our own rules' conditions (`rules.py`), which column a name
means (`own_columns.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.quality.checks.own_columns import VersionRule
    from strata_cdc.quality.checks.rules import Exemptions, Rule
    from strata_cdc.schema.model.definition import TableDefinition, TableName


def conditioned(
    followed: VersionRule,
    table: TableName,
    others: Iterable[TableDefinition],
    names: Mapping[str, str],
    exempt: Exemptions,
) -> Rule | None:
    """The rule for the rows of one version; None if that lacks a column that the condition names.

    Of rows whose image lacks such a column, or whose value has no type, it is not known whether the condition holds:
    they are exempt, as they are from the rules that follow from the schema.

    Args:
        followed: The user's rule at the version.
        others: All versions of the batch as the rule sees them, of which one at least has to have the columns.
        names: From a column of the version to what the judged frame calls it.
        exempt: What is exempt in the batch.

    Raises:
        ConditionError: The text is no condition on any version of the table; has the position.
    """
    rule = followed.rule
    if rule.where is None:
        return rule
    # Imported here: few have conditions, and sqlglot takes a third of a second.
    from strata_cdc.dialects.conditions.condition import parse
    from strata_cdc.dialects.conditions.read import UnknownColumnError

    try:
        condition = parse(rule.where, followed.definition, str(table))
    except UnknownColumnError:
        if any(_is_read(rule.where, other, table) for other in others):
            return None
        raise
    frame = {name: names[column.name] for name, column in followed.real.items()}
    meant = {followed.real[name].name: followed.real[name] for name in condition.columns}
    parts = [exempt.selection(meant[name]).sql() for name in sorted(meant)]
    because = rule.because + "".join(
        f"; {name} is called {column.name} there"
        for name in sorted(condition.columns)
        if (column := followed.real[name]).name != name
    )
    return replace(
        rule, because=because, condition=" AND ".join([*dict.fromkeys(parts), f"({condition.spark(frame)})"])
    )


def _is_read(where: str, definition: TableDefinition, table: TableName) -> bool:
    from strata_cdc.dialects.conditions.condition import parse
    from strata_cdc.dialects.conditions.read import UnknownColumnError

    try:
        parse(where, definition, str(table))
    except UnknownColumnError:
        return False
    return True
