"""Does to a mirror what a DDL does to its table, in one commit.
Not here: what that is (`ddl_plan.py`), changes of rows (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.errors import ReadAgainError, Usage
from strata_cdc.mirrors.actions import has_invalid
from strata_cdc.mirrors.data_files import read_file_rows, write_rows
from strata_cdc.mirrors.ddl_plan import (
    CannotFollowError,
    FilesAction,
    definition_after,
    plan_alter,
    plan_removal,
    refuse_unknown,
)
from strata_cdc.mirrors.layout import SEQ
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.modes import protocol_of
from strata_cdc.mirrors.renames import Renames, highest_number, with_invalid
from strata_cdc.mirrors.schema_text import schema_text
from strata_cdc.mirrors.table import BEGUN, GONE_COLUMNS, STOPPED, Mirror
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.tables.convert import convert_exact_rows, exact_schema
from strata_cdc.tables.partition_rows import in_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from strata_cdc.mirrors.ddl_plan import DdlPlan
    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.partitions import HeldRows


def altered(mirror: Mirror, change: TableChange, position: MirrorPosition, renames: Renames = Renames.COPY) -> Mirror:
    """The mirror after an ALTER TABLE, or after anything else that gave its table another definition.

    Args:
        mirror: The mirror before the statement.
        change: The statement.
        position: The position after the statement.
        renames: What happens to columns that get another name.

    Raises:
        CannotFollowError: The log does not show what the rows have become.
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    plan = plan_alter(mirror, change, renames)
    if plan.action is FilesAction.REMOVE:
        return _removed(mirror, position, plan)
    columns, files = plan.columns, list[dict[str, Any]]()
    if plan.action is FilesAction.REWRITE:
        added = list(write_rows(mirror.url, columns, converted_rows(mirror, change), limits=mirror.limits))
        files = [*_without_files(mirror), *(file.added() for file in added)]
        if has_invalid(added):
            columns = with_invalid(columns, mirror.schema, highest_number(mirror.snapshot.properties))
    properties = {GONE_COLUMNS: "\n".join(sorted(plan.gone_columns)) or None, STOPPED: None}
    return mirror.commit(
        [
            protocol_of(mirror.mode, schema_text(columns)),
            mirror.metadata(properties, plan.definition, columns),
            *files,
        ],
        position,
        operation="ALTER TABLE",
        about={"strata.effect": plan.effect.value},
    )


def emptied(
    mirror: Mirror, position: MirrorPosition, definition: TableDefinition, renames: Renames = Renames.COPY
) -> Mirror:
    """The mirror of a table of this definition after a TRUNCATE.

    Raises:
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    # The files that were applied before do not count any more.
    return _removed(mirror, position, plan_removal(mirror, definition, renames), applied="")


def _removed(mirror: Mirror, position: MirrorPosition, plan: DdlPlan, applied: str | None = None) -> Mirror:
    is_same = plan.definition == mirror.definition
    return mirror.commit(
        [
            *([] if is_same else [protocol_of(mirror.mode, schema_text(plan.columns))]),
            mirror.metadata(BEGUN, plan.definition, plan.columns),
            *_without_files(mirror),
        ],
        position,
        operation="DELETE",
        about={"strata.effect": plan.effect.value},
        applied=applied,
    )


def _without_files(mirror: Mirror) -> list[dict[str, Any]]:
    now = now_ms()
    return [file.removed(now) for file in mirror.snapshot.files.values()]


def rearranged(
    mirror: Mirror,
    position: MirrorPosition,
    held: HeldRows,
    brought: Iterable[pa.Table] = (),
    operation: str = "DELETE",
) -> Mirror:
    """The mirror without the rows of some partitions, and with the rows that replaced them.

    Args:
        mirror: The mirror before the statement.
        position: The position after the statement.
        held: The partitions.
        brought: The new rows, in the columns of the mirror.
        operation: The name of the operation in the commit.

    Raises:
        CannotFollowError: It is not known which rows the partitions have.
        CommitConflictError: Another program has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    now, actions, added = now_ms(), [], list(write_rows(mirror.url, mirror.schema, brought, limits=mirror.limits))
    for file in mirror.snapshot.files.values():
        parts = [*read_file_rows(mirror.url, file, mirror.exact_schema, mirror.dead_rows(file))]
        kept = [part.filter(pc.invert(pa.array(_held(part, mirror, held)))) for part in parts]
        if sum(part.num_rows for part in kept) < sum(part.num_rows for part in parts):
            actions.append(file.removed(now))
            added += write_rows(mirror.url, mirror.schema, kept, limits=mirror.limits)
    actions += [file.added() for file in added]
    columns = mirror.schema
    if has_invalid(added):
        columns = with_invalid(columns, None, highest_number(mirror.snapshot.properties))
    about = {"strata.effect": (EffectKind.EXCHANGE if operation != "DELETE" else EffectKind.REMOVE).value}
    actions.append(mirror.metadata({STOPPED: None}, schema=columns))
    return mirror.commit(actions, position, operation=operation, about=about)


def rows_held(mirror: Mirror, held: HeldRows) -> Iterator[pa.Table]:
    """The rows of some partitions.

    Raises:
        CannotFollowError: It is not known which rows these are.
    """
    for rows in mirror.exact_batches():
        yield rows.filter(pa.array(_held(rows, mirror, held)))


def _held(rows: pa.Table, mirror: Mirror, held: HeldRows) -> NDArray[np.bool_]:
    try:
        return in_partitions(rows, mirror.definition, held)
    except ReadAgainError as error:
        raise CannotFollowError(error.facts().message) from error


def converted_rows(mirror: Mirror, change: TableChange) -> Iterator[pa.Table]:
    """The rows of a mirror in the form that the table has after a change, a batch at a time.

    Raises:
        CannotFollowError: The log does not show what the rows have become.
    """
    definition = definition_after(change)
    refuse_unknown(change.effect, is_empty=mirror.snapshot.live_rows == 0)
    names = exact_schema(mirror.definition).names
    for rows in mirror.exact_batches():
        try:
            converted = convert_exact_rows(rows.select(names), mirror.definition, definition, change.effect)
        except Usage as error:
            raise CannotFollowError(error.facts().message) from error
        yield converted.append_column(SEQ, rows[SEQ])
