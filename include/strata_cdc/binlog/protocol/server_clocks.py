"""The clocks of a group's servers, and what a server's position proves.
Not here: the merge (`groups/merge.py`), when clocks are measured (`groups/readers.py`).

The group's time is that of its middle clock, as it was when a reader began: it continues evenly if that clock is
set, or if another clock is the middle one after a switchover. Another server's clock is corrected by its difference
from the group's time, in whole steps of `clock_bound`: so clocks that agree are never corrected, and a clock that does
not is corrected by the same amount whenever it is measured. The order of changes of two servers is right if their
commit times differ by more than `Correction.bound`; of one server it is always right.

MariaDB logs no reliable times of commits: a session may set the time, a replica logs that of its primary, and 10.11
that at which the statement began. So its clock and its position prove nothing of what it commits later
(`ServerMoment.proves_idleness`); the times of such a source are those of its stream's commit clock.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from strata_cdc.binlog.protocol.connection import connect, server_errors
from strata_cdc.binlog.protocol.replication import is_mariadb
from strata_cdc.errors import SourceSettingsError, SourceUnavailableError, StrataError
from strata_cdc.position.executed import NOTHING, parse_executed
from strata_cdc.position.owned import owned_gtids, with_gtids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pymysql

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.position.port import Executed

_LOG: Final = logging.getLogger("strata.group")
_READ_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0
_TIMES: Final = 3
"""How many times a clock is queried: the quickest answer is the most exact."""


_MYSQL: Final = (
    "SELECT CONCAT_WS(';', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), @@GLOBAL.gtid_mode,"
    " @@GLOBAL.server_uuid, @@GLOBAL.gtid_owned)",
    "SELECT @@GLOBAL.gtid_executed",
)
_MARIADB: Final = (
    "SELECT CONCAT_WS(';', TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'ON',"
    " CONCAT('gtid_domain_id ', @@GLOBAL.gtid_domain_id, ', server_id ', @@GLOBAL.server_id), '')",
    "SELECT @@GLOBAL.gtid_binlog_pos",
)
"""Clock, mode, identity and owned GTIDs; then what was executed. In one column: PyMySQL reads the description of a
column as slowly as its value, twice a second for each server that is idle."""
_BEGAN: Final = time.time_ns() - time.monotonic_ns()


def local_micros() -> int:
    """This machine's time when the program began, continued evenly since (microseconds UTC): setting this machine's
    clock does not change it."""
    return (_BEGAN + time.monotonic_ns()) // 1000


class ServerMoment(Struct, frozen=True):
    """The state of a server at one time."""

    clock: int
    """Its clock, microseconds UTC."""
    executed: Executed
    """Holds each transaction that was committed before that time; of MariaDB, each that was in its binlog by then."""
    ahead: int
    """How far its clock is ahead of this machine's (microseconds)."""
    bound: int
    """By how much `ahead` may be wrong: half of the time that the query took."""
    server_uuid: str = ""
    """UUID of the server; of MariaDB, what tells its GTIDs from those of other servers: its domain and its number."""
    proves_idleness: bool = True
    """Whether nothing that is not in `executed` has an earlier time than `clock`. Not of MariaDB."""


class Correction(Struct, frozen=True):
    """How a server's clock is turned into the group's time."""

    amount: int = 0
    """To be subtracted from its times (microseconds)."""
    bound: int = 0
    """How far the corrected clock may be from the middle clock (microseconds)."""


def middle_of(measured: Mapping[str, ServerMoment]) -> ServerMoment:
    """The middle clock; there is at least one."""
    ordered = sorted(measured.values(), key=lambda clock: clock.ahead)
    return ordered[(len(ordered) - 1) // 2]


def corrections(
    measured: Mapping[str, ServerMoment], step: int, middle: ServerMoment | None = None
) -> dict[str, Correction]:
    """The correction of each clock.

    Args:
        measured: The measurement of each server.
        step: Amounts are multiples of it (microseconds).
        middle: The clock whose time is the group's; None: the middle clock of these.
    """
    if not measured:
        return {}
    middle = middle or middle_of(measured)
    by_source = {}
    for source, moment in measured.items():
        away = moment.ahead - middle.ahead
        amount = (away + step // 2) // step * step
        by_source[source] = Correction(amount, abs(away - amount) + moment.bound + middle.bound)
    return by_source


class Clocks:
    """The clocks of a group's servers, as they were measured last."""

    def __init__(self, group: str, addresses: Mapping[str, ServerAddress], step: int) -> None:
        """Corrects none yet.

        Args:
            group: Its name.
            addresses: Of the servers, by source.
            step: As for `corrections`.
        """
        self._group, self._addresses, self._step = group, addresses, step
        self._measured: dict[str, ServerMoment] = {}
        self._middle: ServerMoment | None = None
        """The clock whose time is the group's."""
        self._newest: dict[str, int] = {}
        """The newest time of each server, as it has it."""
        self._measured_at: dict[str, float] = {}
        self.corrections: dict[str, Correction] = {}

    def measure(self, sources: Iterable[str], optional: Collection[str] = ()) -> None:
        """Measures some of them.

        Args:
            sources: Which.
            optional: Those of them that need not answer, because everything that is wanted of them may have landed.

        Raises:
            SourceUnavailableError: Some do not answer; all of these are named.
            StrataError: A server cannot be a member of a group.
        """
        failed: dict[str, StrataError] = {}
        for source in sources:
            try:
                self._measured[source] = self._ask(source)
            except SourceUnavailableError as error:
                if source not in optional:
                    failed[source] = error
            except StrataError as error:
                raise error.located(source=source) from None
        if failed:
            failures = "; ".join(f"{name}: {error.message}" for name, error in sorted(failed.items()))
            raise SourceUnavailableError(
                f"the group {self._group} has no watermark without all of its sources: {failures}",
                source=", ".join(sorted(failed)),
                remedy="`strata doctor` looks at each.",
            )
        self._correct()

    def servers(self, sources: Iterable[str]) -> dict[str, str]:
        """The UUIDs of the servers of some sources, as far as these have answered."""
        return {name: self._measured[name].server_uuid for name in sources if name in self._measured}

    def prove_idleness(self, source: str) -> bool:
        """As `ServerMoment.proves_idleness`; True of a server that was not measured."""
        return source not in self._measured or self._measured[source].proves_idleness

    def in_group(self, source: str, time_: int) -> int:
        """A time of a server in the group's time (both in microseconds UTC)."""
        correction = self.corrections.get(source)
        return time_ if correction is None else time_ - correction.amount

    def in_server(self, source: str, time_: int) -> int:
        """The inverse."""
        return 2 * time_ - self.in_group(source, time_)

    def earliest(self, source: str, others: Mapping[str, int]) -> int | None:
        """A time of a server's clock before which it has committed nothing that is later than some times of others.

        Args:
            source: Of the server.
            others: Times of other servers by their own clocks, by source (microseconds UTC); 0: not known.

        Returns:
            Microseconds UTC; None: not known, since some of the clocks were not measured.
        """
        mine = self.corrections.get(source)
        times = []
        for name, time_ in others.items():
            correction = self.corrections.get(name)
            if mine is None or correction is None or not time_:
                return None
            times.append(time_ - correction.amount + mine.amount - self._apart(correction, mine))
        return min(times)

    def latest(self, source: str, time_: int) -> int | None:
        """A time of a server's clock after which it commits nothing that is earlier than a time of the group (both
        microseconds UTC); None: not known."""
        mine = self.corrections.get(source)
        return None if mine is None else time_ + mine.amount + self._apart(mine, Correction())

    def _apart(self, correction: Correction, other: Correction) -> int:
        """How far two clocks may be apart once they are corrected (microseconds): the measured difference, in
        whole steps so that each reader gets the same, and one step for the drift since."""
        return self._step - -(correction.bound + other.bound) // self._step * self._step

    def now(self) -> int:
        """The group's time now, as far as this machine knows (microseconds UTC)."""
        return local_micros() + self._ahead

    def translate(self, source: str, times: Ints) -> Ints:
        """Commit times of a server in the group's time. If they lie in the future, or are earlier than what came before
        them, its clock has been set, and is measured again."""
        newest, last = self._newest.get(source, 0), int(times[-1])
        is_ahead = self._measured and self.in_group(source, last) > self.now() + self._step
        if is_ahead or last < newest - self._step:
            self._measure_again(source)
        self._newest[source] = last
        correction = self.corrections.get(source)
        return times if correction is None else times - correction.amount

    def note(self, source: str, moment: ServerMoment) -> None:
        """Adds a newer measurement of a server."""
        known = self._measured.get(source)
        if known is not None and abs(moment.ahead - known.ahead) > self._step // 2 + moment.bound:
            self._measured[source] = moment
            self._correct()

    def _measure_again(self, source: str) -> None:
        if (
            source not in self._measured
            or time.monotonic() - self._measured_at.get(source, -_AGAIN_SECONDS) < _AGAIN_SECONDS
        ):
            return
        self._measured_at[source] = time.monotonic()
        with suppress(StrataError):
            self.note(source, self._ask(source))

    def _ask(self, source: str) -> ServerMoment:
        server = Server(self._addresses[source])
        try:
            return server.measure()
        finally:
            server.close()

    def _correct(self) -> None:
        if not self._measured:
            return
        middle = middle_of(self._measured)
        # It may drift; if it is set, or is another clock, the group's time continues.
        if self._middle is None or abs(middle.ahead - self._middle.ahead) <= self._step:
            self._middle = middle
        before, self.corrections = self.corrections, corrections(self._measured, self._step, self._middle)
        for source, correction in sorted(self.corrections.items()):
            if correction.amount != (before[source].amount if source in before else 0):
                _LOG.warning(
                    "group %s: the clock of %s is %+.3f s away from the group's: its times are corrected by %+.3f s, "
                    "and may still be wrong by %.3f s",
                    self._group,
                    source,
                    (self._measured[source].ahead - self._ahead) / 1e6,
                    -correction.amount / 1e6,
                    correction.bound / 1e6,
                )

    @property
    def _ahead(self) -> int:
        return self._middle.ahead if self._middle else 0


class Server:
    """A connection to one server of the group, made again if it breaks."""

    def __init__(self, address: ServerAddress) -> None:
        """Nothing is opened yet."""
        self._address = address
        self._connection: pymysql.Connection[Any] | None = None
        self._is_mariadb = False
        self._executed = "", NOTHING
        """Its last GTID set, as a text and as a set: it is the same as long as the server executes nothing."""

    def measure(self) -> ServerMoment:
        """Its clock, as exactly as a few queries can measure.

        Raises:
            StrataError: As `ask`.
        """
        return min((self.ask() for _ in range(_TIMES)), key=lambda answer: answer.bound)

    def ask(self) -> ServerMoment:
        """Its state now.

        Raises:
            SourceSettingsError: It has no GTIDs.
            StrataError: It does not answer.
        """
        with server_errors(self._address):
            try:
                return self._ask()
            except Exception:
                self.close()
                raise

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _ask(self) -> ServerMoment:
        if self._connection is None:
            self._connection = connect(self._address, read_seconds=_READ_SECONDS)
            self._is_mariadb = is_mariadb(self._connection)
        state, everything = _MARIADB if self._is_mariadb else _MYSQL
        with self._connection.cursor() as cursor:
            before = local_micros()
            # In this order: see `owned_gtids`.
            cursor.execute(state)
            [answer] = cursor.fetchone() or ("0;;;",)
            after = local_micros()
            cursor.execute(everything)
            [executed] = cursor.fetchone() or ("",)
        clock, mode, uuid, owned = answer.split(";")
        if mode != "ON":
            raise SourceSettingsError(
                "a source of a group needs GTIDs: its tokens say where all sources are",
                remedy="Set gtid_mode to ON; `strata doctor` shows how.",
            )
        if executed != self._executed[0]:
            self._executed = executed, parse_executed(executed)
        with_owned = with_gtids(self._executed[1], owned_gtids(owned))
        ahead, bound = int(clock) - (before + after) // 2, (after - before + 1) // 2
        return ServerMoment(int(clock), with_owned, ahead, bound, uuid, not self._is_mariadb)
