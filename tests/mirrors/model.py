"""A table in memory, the change batches that its life gives, and its mirror: without a server.
Not here: what must hold (the tests beside this file)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.mirrors.apply import Applier
from strata_cdc.mirrors.key_index import BOUND_BYTES
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.position import MirrorPosition
from strata_cdc.mirrors.table import Mirror
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.named_columns import published
from tests.tables.changes import changes, definition

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
SOURCE, TABLE = "s", "shop.t"
COLUMNS = {"id": "int NOT NULL", "t": "varchar(20) NOT NULL", "n": "int"}

Row = tuple[int, str, int | None]


def position(seq: int) -> MirrorPosition:
    return MirrorPosition(seq, f"{SERVER}:1-{seq}" if seq else "", 1000 + seq, 1)


class Model:
    """Rows by key, and the transactions that made them so."""

    def __init__(self, seed: int, key: tuple[str, ...] = ("id",), limits: MirrorLimits = MirrorLimits()) -> None:
        self.key, self.limits = key, limits
        self.definition: TableDefinition = definition(COLUMNS, key)
        self.rows: list[Row] = []
        self.states: dict[int, list[Row]] = {0: []}
        """Ordinal -> the rows behind it."""
        self._random = Random(seed)
        self._changes: list[dict[str, Any]] = []
        self.seq = 0

    def live(self, transactions: int) -> None:
        """Some transactions."""
        for _ in range(transactions):
            self.seq += 1
            for row in range(self._random.randrange(1, 6)):
                self._change(row)
            self.states[self.seq] = sorted(self.rows, key=repr)

    def changes(self, after: int = 0) -> pa.Table:
        """All changes behind a transaction, in any order."""
        found = [one for one in self._changes if one["seq"] > after]
        self._random.shuffle(found)
        fields = {field.name: field.type for field in state_schema(self.definition)}
        return pa.Table.from_batches([published(changes(fields, found).batch)])

    def create(self, lake: str, mode: Mode = Mode.DELETION_VECTORS) -> Mirror:
        """An empty mirror."""
        return Mirror.create(lake, SOURCE, TABLE, self.definition, [], position(0), mode=mode, limits=self.limits)

    def opened(self, lake: str) -> Mirror:
        """The mirror as it is."""
        return opened(lake, self.limits)

    def bring(self, lake: str, until: int | None = None, bound_bytes: int = BOUND_BYTES) -> Mirror:
        """The mirror with all changes up to a transaction."""
        mirror = self.opened(lake)
        until = self.seq if until is None else until
        found = self.changes()
        return Applier(mirror, bound_bytes).apply(found.filter(pc.less_equal(found["_seq"], until)), position(until))

    @staticmethod
    def opened_or_none(lake: str) -> Mirror | None:
        return Mirror.open(lake, SOURCE, TABLE)

    def _row(self) -> Row:
        number = self._random.randrange(30)
        return number, self._random.choice("abcdefgh"), self._random.choice([None, 1, 2, 3])

    def _is_free(self, row: Row) -> bool:
        at = [list(COLUMNS).index(name) for name in self.key]
        return not at or all([row[one] for one in at] != [known[one] for one in at] for known in self.rows)

    def _change(self, number: int) -> None:
        new, old = self._row(), self._random.choice(self.rows) if self.rows else None
        change: dict[str, Any] = {"seq": self.seq, "row": number}
        kind = self._random.choice(["insert", "insert", "update", "update", "delete"])
        if kind == "insert" and self._is_free(new):
            self.rows.append(new)
            self._changes.append({**change, "op": "insert", "after": _image(new)})
        elif kind == "delete" and old is not None:
            self.rows.remove(old)
            self._changes.append({**change, "op": "delete", "before": _image(old)})
        elif kind == "update" and old is not None:
            self.rows.remove(old)
            if not self._is_free(new):
                new = tuple(  # type: ignore[assignment]
                    old[at] if name in self.key else new[at] for at, name in enumerate(COLUMNS)
                )
            self.rows.append(new)
            self._changes.append({**change, "op": "update", "before": _image(old), "after": _image(new)})


def _image(row: Row) -> dict[str, Any]:
    return dict(zip(COLUMNS, row, strict=True))


def opened(lake: str, limits: MirrorLimits = MirrorLimits()) -> Mirror:
    found = Mirror.open(lake, SOURCE, TABLE, limits=limits)
    assert found is not None
    return found


def rows_of(mirror: Mirror) -> list[Row]:
    return sorted((tuple(row[name] for name in COLUMNS) for row in mirror.to_arrow().to_pylist()), key=repr)
