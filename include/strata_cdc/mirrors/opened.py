"""A mirror for users of Python: its position as a token, its rows for Arrow and DuckDB, and waiting for it.
Not here: how it is stored (`table.py`), other readers (docs/reading.md)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.errors import InvalidTokenError, MirrorBehindError, Usage
from strata_cdc.mirrors.current import position_now
from strata_cdc.mirrors.position import Naming
from strata_cdc.mirrors.table import Mirror
from strata_cdc.position.commit_ts import CommitTs
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.token import Order, Token
from strata_cdc.position.token_text import from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from strata_cdc.mirrors.position import MirrorPosition
    from strata_cdc.position.port import Executed

    At = Token | Executed | datetime | str

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.05, 2.0


class OpenMirror(Struct, frozen=True):
    """A mirror as it was when it was opened; later commits do not change what it returns."""

    lake: str
    mirror: Mirror
    at: MirrorPosition
    naming: Naming = Naming()

    @property
    def position(self) -> Token:
        """The position up to which it equals the table.

        Raises:
            Usage: The source has neither GTIDs nor commit timestamps, so no token can name the position; or its commits
                of then were deleted from the lake by age.
        """
        return _token(self.lake, self.mirror.source, self.at, self.naming)

    @property
    def is_dropped(self) -> bool:
        """Whether the table no longer exists on the server."""
        return self.mirror.is_dropped

    @property
    def url(self) -> str:
        """The Delta table, for other readers."""
        return self.mirror.url

    def __len__(self) -> int:
        """Number of rows."""
        return self.mirror.snapshot.live_rows

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows, in no order.

        Args:
            columns: The requested columns; None for all.

        Raises:
            DamagedFileError: A file is gone or damaged.
            LakeUnavailableError: The storage does not answer.
        """
        return self.mirror.to_arrow(columns)

    def to_duckdb(self, connection: Any, columns: Sequence[str] | None = None) -> Any:
        """The rows as a relation of a DuckDB connection; they are read when the relation is made.

        Args:
            connection: As returned by `duckdb.connect()`.
            columns: The requested columns; None for all.
        """
        return connection.from_arrow(self.to_arrow(columns))

    def wait_until(self, token: Token | str, timeout_seconds: float = 60) -> OpenMirror:
        """Waits until the mirror holds everything up to a token, and returns it.

        Raises:
            MirrorBehindError: It does not hold it in time, or never will: the mirror is blocked, and the error has the
                reason.
            Usage: The token is of another source or lineage, whose GTIDs the mirror's source does not have by copy; or
                the mirror's source has no GTIDs.
        """
        wanted = from_text(token) if isinstance(token, str) else token
        self._refuse_others(wanted)
        opened, end, wait = self, time.monotonic() + timeout_seconds, _FIRST_WAIT_SECONDS
        while wanted.compare(opened.position) not in (Order.BEFORE, Order.EQUAL):
            left = end - time.monotonic()
            if left <= 0 or opened.mirror.stopped:
                raise opened._behind()
            time.sleep(min(wait, left))
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            opened = _now(self.lake, opened.mirror.refreshed(), self.naming)
        return opened

    def _refuse_others(self, wanted: Token) -> None:
        known = {self.mirror.source: self.naming.lineage, **self.naming.copied_from}
        for position in wanted.positions:
            if known.get(position.source) != position.lineage:
                raise Usage(
                    f"the token is not of {self.mirror.source} alone: it names {position.source} with lineage "
                    f"{position.lineage!r}, and the mirror was opened for lineage {self.naming.lineage!r}",
                    source=self.mirror.source,
                    remedy="Open the mirror with `lineage` and `copied_from` as the settings have them, and wait for a "
                    "token of its source.",
                )

    def _behind(self) -> MirrorBehindError:
        mirror = self.mirror
        return MirrorBehindError(
            f"the mirror is at transaction {self.at.seq}: {mirror.stopped or 'nothing newer is published yet'}",
            source=mirror.source,
            table=str(mirror.table),
            remedy=f"`strata mirror list --source {mirror.source}` says what it waits for.",
        )


def open_mirror(lake: str, source: str, table: str, at: At | None, naming: Naming) -> OpenMirror:
    """See `strata_cdc.mirrors.open`."""
    reached = None if at is None else _is_reached(lake, source, at, naming)
    mirror = Mirror.open(lake, source, table, reached)
    if mirror is None:
        raise Usage(
            "the table has no mirror",
            source=source,
            table=table,
            remedy="Name it in `mirrors` of the settings; `strata mirror list` lists those that there are.",
        )
    return _now(lake, mirror, naming) if at is None else OpenMirror(lake, mirror, mirror.position, naming)


def _now(lake: str, mirror: Mirror, naming: Naming) -> OpenMirror:
    return OpenMirror(lake, mirror, position_now(lake, mirror), naming)


def _token(lake: str, source: str, position: MirrorPosition, naming: Naming) -> Token:
    if position.gtid_executed:
        return position.token(source, naming)
    # Imported here: a mirror of a server needs nothing of what has landed.
    from strata_cdc.landing.landed import LandedStream  # noqa: PLC0415  see above
    from strata_cdc.ticdc.landed_steps import step_at  # noqa: PLC0415  see above

    landed = LandedStream.open(lake, source)
    if landed.has_server:
        return position.token(source, naming)
    if position.seq < landed.first_seq - 1:
        raise Usage(
            f"the mirror is at commit {position.seq}, and the commits up to {landed.first_seq - 1} were deleted from "
            "the lake by age: their timestamps are not known",
            source=source,
            remedy=f"`strata run --source {source}` brings the mirror to the newest commit.",
        )
    at = CommitTs(step_at(landed, position.seq), position.seq)
    return Token.of(source, at, lineage=naming.lineage, committed_at=position.committed_at)


def _is_reached(lake: str, source: str, at: At, naming: Naming) -> Callable[[MirrorPosition], bool]:
    point = _point(at) if isinstance(at, str) else at
    if isinstance(point, datetime):
        if point.tzinfo is None:
            raise Usage("a time without a zone may be any", remedy="Give it one, as in `datetime(..., tzinfo=UTC)`.")
        limit = (point - _EPOCH) // timedelta(microseconds=1)
        return lambda position: position.committed_at <= limit
    wanted = point if isinstance(point, Token) else Token.of(source, point, lineage=naming.lineage)
    return lambda position: _token(lake, source, position, naming).compare(wanted) in (Order.BEFORE, Order.EQUAL)


def _point(text: str) -> Token | Executed | datetime:
    try:
        return from_text(text)
    except InvalidTokenError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parse_executed(text)
