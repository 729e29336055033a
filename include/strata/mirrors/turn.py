"""What a DDL does to a mirror: its effect on the rows that are there, in one commit, or a stop in front of it.
Not here: which effect a statement has (`schema/history/effects.py`), changes of rows (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata.errors import StrataError, Usage
from strata.mirrors.data_files import write_rows
from strata.mirrors.layout import SEQ, mirror_schema
from strata.mirrors.log import now_ms
from strata.mirrors.modes import protocol_of
from strata.mirrors.schema_text import schema_text
from strata.mirrors.table import GONE_COLUMNS, STOPPED, Mirror
from strata.schema.history.effects import EffectKind
from strata.schema.model.folding import fold_name
from strata.tables.convert import convert_rows, state_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from strata.mirrors.position import MirrorPosition
    from strata.schema.history.effects import Effect
    from strata.schema.history.turns import Turn
    from strata.schema.model.definition import TableDefinition

_MOVES_ROWS: Final = (EffectKind.EXCHANGE, EffectKind.READ_AGAIN)


class CannotFollowError(StrataError):
    """The mirror has to stay in front of a statement; the message says why."""


def altered(mirror: Mirror, turn: Turn, position: MirrorPosition) -> Mirror:
    """The mirror behind an ALTER TABLE, or whatever else gave its table another definition.

    Raises:
        CannotFollowError: Nothing in the log tells what the rows have become.
        CommitConflictError: Somebody else has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    definition = _definition_of(turn)
    effect = _effect_of(turn)
    refuse_unknown(effect, is_empty=mirror.snapshot.live_rows == 0)
    if effect.kind is EffectKind.REMOVE:
        return emptied(mirror, position, definition)
    if _only_schema_changes(mirror, turn, effect):
        gone = mirror.gone_columns | {fold_name(name) for name in effect.dropped}
        changed = {GONE_COLUMNS: "\n".join(sorted(gone)) or None, STOPPED: None}
        return mirror.commit(
            [protocol_of(mirror.mode, schema_text(mirror_schema(definition))), mirror.metadata(changed, definition)],
            position,
            operation="ALTER TABLE",
            about={"strata.effect": effect.kind.value},
        )
    return _rewritten(mirror, turn, position, definition)


def emptied(mirror: Mirror, position: MirrorPosition, definition: TableDefinition) -> Mirror:
    """The mirror of a table of this definition behind a TRUNCATE.

    Raises:
        CommitConflictError: Somebody else has committed meanwhile.
        LakeUnavailableError: The storage does not answer.
    """
    now = now_ms()
    return mirror.commit(
        [
            mirror.metadata({GONE_COLUMNS: None, STOPPED: None}, definition),
            *(file.removed(now) for file in mirror.snapshot.files.values()),
        ],
        position,
        operation="DELETE",
        about={"strata.effect": EffectKind.REMOVE.value},
    )


def converted_rows(mirror: Mirror, turn: Turn) -> Iterator[pa.Table]:
    """The rows of a mirror as the table of a turn has them, some at a time.

    Raises:
        CannotFollowError: Nothing in the log tells what they have become.
    """
    definition = _definition_of(turn)
    refuse_unknown(_effect_of(turn), is_empty=mirror.snapshot.live_rows == 0)
    names = state_schema(mirror.definition).names
    for rows in mirror.batches():
        try:
            found = convert_rows(
                rows.select(names),
                mirror.definition,
                definition,
                turn.renamed_columns,
                turn.added_columns,
                effect=turn.effect,
            )
        except Usage as error:
            raise CannotFollowError(error.facts().message) from error
        yield found.append_column(SEQ, rows[SEQ])


def refuse_unknown(effect: Effect, *, is_empty: bool) -> None:
    """Stops in front of what nothing in the log tells; of a table without rows everything is known.

    Raises:
        CannotFollowError: It is so.
    """
    if is_empty and not effect.brings_rows and effect.kind is not EffectKind.EXCHANGE:
        return
    if effect.brings_rows:
        raise CannotFollowError(effect.reason or "a statement brought rows that no log has")
    if effect.kind is EffectKind.REMOVE and not effect.is_whole:
        names = ", ".join(effect.partitions)
        raise CannotFollowError(
            f"a statement removed the rows of partitions ({names}), and no log says which they were"
        )
    if effect.kind in _MOVES_ROWS:
        raise CannotFollowError(effect.reason or "a statement exchanged rows with another table")


def _effect_of(turn: Turn) -> Effect:
    if turn.effect is None:
        raise CannotFollowError("nobody has asked what the statement does to rows")
    return turn.effect


def _definition_of(turn: Turn) -> TableDefinition:
    if turn.definition is None:
        raise CannotFollowError(turn.gap or "the table is gone")
    return turn.definition


def _only_schema_changes(mirror: Mirror, turn: Turn, effect: Effect) -> bool:
    """Whether the files can stay: each column of the table is in them under its name and type, or is NULL in all rows
    and no file has a column of its name."""
    if effect.kind not in (EffectKind.NONE, EffectKind.METADATA, EffectKind.FILL):
        return False
    if turn.renamed_columns or any(one.value is not None for one in effect.filled):
        return False
    old, new = mirror.schema, mirror_schema(_definition_of(turn))
    dropped = mirror.gone_columns | {fold_name(name) for name in effect.dropped}
    added = {fold_name(name) for name in (*effect.added, *turn.added_columns)}
    for field in new:
        at = old.get_field_index(field.name)
        is_kept = at >= 0 and old.field(at).type == field.type and fold_name(field.name) not in added
        if not is_kept and fold_name(field.name) in dropped | {fold_name(name) for name in old.names}:
            return False
    return True


def _rewritten(mirror: Mirror, turn: Turn, position: MirrorPosition, definition: TableDefinition) -> Mirror:
    schema = mirror_schema(definition)
    added = list(write_rows(mirror.url, schema, converted_rows(mirror, turn)))
    now = now_ms()
    return mirror.commit(
        [
            protocol_of(mirror.mode, schema_text(schema)),
            mirror.metadata({GONE_COLUMNS: None, STOPPED: None}, definition),
            *(file.removed(now) for file in mirror.snapshot.files.values()),
            *(file.added() for file in added),
        ],
        position,
        operation="ALTER TABLE",
        about={"strata.effect": _effect_of(turn).kind.value},
    )


def put_rows(changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """The rows that inserts have put, with `_seq`."""
    return changes.select([*state_schema(definition).names, SEQ])
