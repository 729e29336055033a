"""The inspector: reads the stream again, and proves from the cache's log and from what is in it that the cache had
nothing older than what had been invalidated.
Not here: writing the log (`lua/`), invalidating (`invalidator.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from strata_cdc.cache.reading import CacheStream
from strata_cdc.cache.serving import Serving
from strata_cdc.cache.shapes import entry_key
from strata_cdc.cache.touched import TouchedEntries
from strata_cdc.errors import StaleCacheError, StrataError, Usage
from strata_cdc.position.executed import NOTHING, is_executed, parse_executed
from strata_cdc.streams.events import Commit
from strata_cdc.streams.stream import ChangeStream

if TYPE_CHECKING:
    from strata_cdc.cache.server import CacheServer
    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.config.settings import Source
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid
    from strata_cdc.streams.events import StreamTransaction

_SHOWN: Final = 5


class Inspection(Struct):
    """What was looked at."""

    begin: str
    """GTID set before the range."""
    end: str
    transactions: int = 0
    """That changed rows of tables that shapes use."""
    unreadable: int = 0
    """Of these: whose rows the binlog does not hold, so that they may have changed anything."""
    records: int = 0
    fills: int = 0
    invalidated: int = 0
    """Entries, cached or not."""
    epochs: int = 0
    held: int = 0
    """Values that are in the cache now."""
    lost_records: int = 0
    """That the log does not have any more; what the cache had in that time is not known."""
    findings: list[str] = field(default_factory=list)


class _Changes:
    """What the stream has changed, by transaction and by key."""

    def __init__(self) -> None:
        self.touched: dict[Gtid, TouchedEntries] = {}
        self.by_entry: dict[str, list[Gtid]] = {}
        self.by_shape: dict[str, list[Gtid]] = {}

    def add(self, gtid: Gtid, touched: TouchedEntries, state_key: str) -> None:
        touched.settle()
        self.touched[gtid] = touched
        for shape, keys in touched.keys.items():
            for key in keys:
                self.by_entry.setdefault(entry_key(state_key, shape, key), []).append(gtid)
        for shape in touched.whole:
            self.by_shape.setdefault(shape, []).append(gtid)

    def missing(self, entry: str, shape: str, done: Executed, token: Executed) -> list[Gtid]:
        """Transactions of a set that changed an entry, and that its value does not have."""
        gtids = self.by_entry.get(entry, []) + self.by_shape.get(shape, [])
        return [gtid for gtid in gtids if done.contains(gtid) and not token.contains(gtid)]


class Inspector:
    """Looks at one cache."""

    def __init__(self, source: Source, cache: CacheServer, shapes: Shapes) -> None:
        """Takes the source, the cache, and the shapes as its invalidator has them."""
        self._source, self._cache, self._shapes = source, cache, shapes
        self._held: dict[str, Executed] = {}
        self._done: Executed | None = None
        """What has been invalidated at this position of the log."""
        self._changes = _Changes()
        self._found = Inspection("", "")

    def inspect(self) -> Inspection:
        """Looks at all that the log has, and at what is in the cache.

        Raises:
            Usage: The cache keeps no log, or nothing is in it.
            BinlogPurgedError: The range is nowhere any more.
            CacheUnavailableError: The cache does not answer.
            StrataError: The stream cannot be read.
        """
        # What comes into the cache from here on is not looked at, as its reasons may not be in the log yet.
        state = self._cache.look()
        values = [(key, fields) for key, fields in self._cache.values() if not key.endswith(":log")]
        records = list(self._cache.log())
        sets = [record[name] for record in records for name in ("before", "checkpoint") if name in record]
        if state is None or not sets:
            raise Usage(
                "the cache has no log of its operations",
                remedy="Run its invalidator with a log: `strata cache follow --log 100000`.",
            )
        inspection = self._found
        inspection.begin, inspection.end = sets[0], str(state.checkpoint | parse_executed(sets[-1]))
        self._read_stream(parse_executed(inspection.begin), parse_executed(inspection.end))
        number = None
        for record in records:
            inspection.lost_records += 0 if number is None else max(0, int(record["record"]) - number - 1)
            number = int(record["record"])
            inspection.records += 1
            getattr(self, f"_{record['kind']}")(record)
        for key, fields in values:
            if fields["epoch"].decode() == state.epoch and int(fields["at"]) >= state.since.get(self._shape_of(key), 0):
                inspection.held += 1
                self._look_at(key, parse_executed(fields["token"].decode()), "is in the cache")
        return inspection

    def _read_stream(self, begin: Executed | None, end: Executed) -> None:
        while begin is not None and not end <= begin:
            begin = self._read_to_fault(begin, end)

    def _read_to_fault(self, begin: Executed, end: Executed) -> Executed | None:
        """Reads a range; returns where to continue after a transaction that cannot be read, and may have changed
        anything."""
        columns = self._shapes.columns or None
        stream = ChangeStream(self._source, begin, until=end, tables=self._shapes.patterns, columns=columns)
        reading = CacheStream(self._shapes, Serving(self._source, self._shapes), stream)
        try:
            for event in stream:
                touched = reading.consume(event)
                if touched is not None and isinstance(event, Commit):
                    self._add(event.transaction, touched)
        except StrataError:
            stopped = stream.stopped_at
            if stopped is None or not is_executed(stopped.after.position):
                raise
            self._add(stopped, TouchedEntries(whole={shape.name for shape in self._shapes.shapes}))
            self._found.unreadable += 1
            return stopped.after.position
        return None

    def _add(self, transaction: StreamTransaction, touched: TouchedEntries) -> None:
        if transaction.record.gtid is not None:
            self._changes.add(transaction.record.gtid, touched, self._cache.state_key)
            self._found.transactions += 1

    # Records ----------------------------------------------------------------------------------------

    def _begin(self, record: dict[str, str]) -> None:
        self._found.epochs += 1
        self._held.clear()
        self._done = parse_executed(record["checkpoint"])

    def _shape(self, record: dict[str, str]) -> None:
        self._drop_shape(record["shape"])

    def _fill(self, record: dict[str, str]) -> None:
        self._found.fills += 1
        self._held[record["entry"]] = token = parse_executed(record["token"])
        self._look_at(record["entry"], token, f"was filled by record {record['record']}")

    def _invalidate(self, record: dict[str, str]) -> None:
        before, after = parse_executed(record["before"]), parse_executed(record["checkpoint"])
        # Steps that touch nothing leave no record.
        known = before if self._done is None else self._done
        shapes = {name for name in record["shapes"].split("\n") if name}
        entries = {
            entry: what for what, _, entry in (line.partition(" ") for line in record["entries"].split("\n")) if entry
        }
        self._found.invalidated += len(entries)
        for gtid in self._new(after - known):
            self._expect(record, gtid, shapes, entries)
        for shape in shapes:
            self._drop_shape(shape)
        self._done = known | after
        for entry, what in entries.items():
            if what != "kept":
                self._held.pop(entry, None)
            elif entry in self._held:
                self._look_at(entry, self._held[entry], f"was kept by record {record['record']}")

    def _expect(self, record: dict[str, str], gtid: Gtid, shapes: set[str], answered: dict[str, str]) -> None:
        """Each key that a transaction touches is among those that went."""
        touched = self._changes.touched[gtid]
        missing = [f"shape {name}" for name in sorted(touched.whole - shapes)]
        for shape, keys in touched.keys.items():
            entries = {entry_key(self._cache.state_key, shape, key) for key in keys} if shape not in shapes else set()
            missing += sorted(entries - set(answered))
        for entry in missing:
            self._found.findings.append(f"{entry} was not invalidated by record {record['record']}, which has {gtid}")

    def _new(self, gtids: Executed) -> list[Gtid]:
        return [gtid for gtid in self._changes.touched if gtids.contains(gtid)]

    def _drop_shape(self, shape: str) -> None:
        head = entry_key(self._cache.state_key, shape, "")
        self._held = {entry: token for entry, token in self._held.items() if not entry.startswith(head)}

    def _shape_of(self, entry: str) -> str:
        return entry.removeprefix(self._cache.state_key).split(":", 2)[1]

    def _look_at(self, entry: str, token: Executed, how: str) -> None:
        for gtid in self._changes.missing(entry, self._shape_of(entry), self._done or NOTHING, token):
            self._found.findings.append(f"{entry} {how} without {gtid}, which had been invalidated")


def require_proof(inspection: Inspection) -> None:
    """Fails if anything was found.

    Raises:
        StaleCacheError: Something was.
    """
    if inspection.findings:
        more = len(inspection.findings) - _SHOWN
        shown = "; ".join(inspection.findings[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise StaleCacheError(
            f"the cache had values that are older than its invalidations: {shown}",
            remedy="Start again with `strata cache follow --anew`, and please report it.",
        )
