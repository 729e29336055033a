"""The mirror of a table, compared instead of its change table.
Not here: mirrors (`mirrors/`), comparing (`compare.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.history.shell_words import pattern_word

if TYPE_CHECKING:
    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName


class ConfirmedMirror(Struct, frozen=True):
    """A mirror, and up to where it equals its table."""

    mirror: Mirror
    seq: int
    """Ordinal of a transaction."""

    @property
    def reason(self) -> str:
        """Where it is, and what brings it further. A run publishes, too, what has just landed to compare with; nothing
        but a dump brings a blocked mirror further."""
        mirror, at = self.mirror, f"the mirror is at transaction {self.seq}"
        again = f"`strata dump --source {mirror.source} --table {pattern_word(mirror.table)}`"
        changed = next((commit for commit in mirror.snapshot.foreign if commit.changes_rows), None)
        if changed is not None:
            who = f"another program has changed it (version {changed.version}, {changed.operation})"
            return f"{at} and is blocked, since {who}: {again}"
        if mirror.stopped:
            return f"{at}, where it is blocked: {mirror.stopped}: {again}"
        return f"{at}: `strata run --source {mirror.source}`"


def mirror_of(source: Source, name: TableName, last_seq: int) -> ConfirmedMirror | None:
    """The mirror of a table that is there.

    Args:
        last_seq: A mirror that is known to be right further than that is taken for right up to it: nothing of the
            table changed between.

    Raises:
        DamagedFileError: It is not whole.
        LakeUnavailableError: The storage does not answer.
    """
    mirror = Mirror.open(source.lake, source.name, name)
    if mirror is None or mirror.is_dropped:
        return None
    reached = position_now(source.lake, mirror).seq
    return ConfirmedMirror(mirror, reached if mirror.position.seq > last_seq else min(reached, last_seq))
