"""Where a mirror is in its source's stream, and how a commit of its Delta table has this position.
Not here: commits (`log.py`), event tokens (`position/token.py`)."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  msgspec needs it to pack
from typing import Any

from msgspec import Struct

from strata_cdc.errors import DamagedFileError, InvalidGtidSetError, Usage
from strata_cdc.position.executed import NOTHING, parse_executed
from strata_cdc.position.source_position import kept_origins
from strata_cdc.position.token import Token

FORMAT = 1
"""Number of the form in which commits have positions; all older forms stay readable."""

_FORMAT, _SEQ = "strata.mirror_format", "strata.seq"
_EXECUTED, _COMMITTED, _VERSION = "strata.gtid_executed", "strata.committed_at", "strata.schema_version"


class Naming(Struct, frozen=True):
    """What tokens of a source have besides its name, as in the settings."""

    lineage: str = ""
    copied_from: Mapping[str, str] = {}
    """Other sources whose GTIDs this source has by copy, and their lineages."""


UNNAMED = Naming()


class MirrorPosition(Struct, frozen=True):
    """A mirror at this position equals the table after the transaction `seq` of its source's landed stream."""

    seq: int
    """Ordinal of the last transaction that is in the mirror; 0 before the first."""
    gtid_executed: str
    """What had been executed in the stream after that transaction; empty for a source without GTIDs."""
    committed_at: int
    """The commit clock at that transaction, microseconds UTC; 0: not known."""
    schema_version: int
    """Id of the version of the table's definition; 0 if no store gave an id."""

    def token(self, source: str, naming: Naming = UNNAMED) -> Token:
        """The position as an event token.

        Raises:
            Usage: The source has no GTIDs, so no token can name the position.
        """
        try:
            executed = parse_executed(self.gtid_executed)
        except InvalidGtidSetError:
            executed = NOTHING
        if not executed and self.seq:
            raise Usage("the mirror's source has no GTIDs, so no token names its position", source=source)
        origins = kept_origins(naming.copied_from, executed)
        return Token.of(source, executed, lineage=naming.lineage, committed_at=self.committed_at, origins=origins)

    def metadata(self) -> dict[str, str]:
        """The position as custom metadata of a commit in Delta's log."""
        return {
            _FORMAT: str(FORMAT),
            _SEQ: str(self.seq),
            _EXECUTED: self.gtid_executed,
            _COMMITTED: str(self.committed_at),
            _VERSION: str(self.schema_version),
        }

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any], url: str) -> MirrorPosition | None:
        """Reads what `metadata` made; None if another program made the commit.

        Raises:
            DamagedFileError: A newer version of Strata made it, or it is damaged.
        """
        if _FORMAT not in metadata:
            return None
        try:
            if int(metadata[_FORMAT]) > FORMAT:
                raise DamagedFileError("a newer version of Strata wrote this mirror", file=url, remedy="Use that one.")
            numbers = int(metadata[_SEQ]), int(metadata[_COMMITTED]), int(metadata[_VERSION])
        except (KeyError, ValueError, TypeError):
            raise DamagedFileError("a commit of a mirror does not say its position", file=url) from None
        return cls(numbers[0], str(metadata[_EXECUTED]), numbers[1], numbers[2])
