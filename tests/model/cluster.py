"""The nodes of a cluster, each with a schema version and a lease, and the owner of DDL that leads them from version to
version; what they do, in any order.
Not here: what may never come of it (`anomalies.py`), who draws what they do (`machine.py`)."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from tests.model.faults import Fault
from tests.model.histories import History, row_text, stage_text, statement_text
from tests.model.jobs import Job, Kind, Planner, Stage, Task, Work
from tests.model.schema import Schema, State
from tests.model.store import RowKey, Store, Write, clear_row, delete_row, fill_row, write_row
from tests.model.stream import RowChange, SchemaChange, Stream

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tests.model.schema import Element

LEASE: Final = 2
"""For so many ticks of the clock a node may serve after it has loaded the schema."""


class Transaction(Struct, frozen=True):
    """A statement that a node has executed and not yet committed."""

    node: str
    schema: Schema
    start_ts: int
    table: str
    write: Write


class Node(Struct):
    """A server that executes statements with the schema version that it has loaded."""

    name: str
    schema: Schema
    lease_until: int
    transaction: Transaction | None = None
    is_up: bool = True


class Cluster:
    """Nodes over one store. What an actor cannot do just then is refused, and returns False."""

    def __init__(
        self,
        elements: list[Element],
        nodes: int = 2,
        faults: frozenset[Fault] = frozenset(),
        locks_metadata: bool = False,
    ) -> None:
        self.faults, self.locks_metadata = faults, locks_metadata
        self.newest = Schema(0, {element.id: element for element in elements})
        self.nodes = [Node(f"node {number + 1}", self.newest, LEASE) for number in range(nodes)]
        self.store, self.stream, self.history = (
            Store(),
            Stream(self.newest),
            History([node.name for node in self.nodes]),
        )
        self.job: Job | None = None
        self._before_job = self.newest
        self._planner = Planner(faults)
        self._clock, self._ts = 0, 0
        self._units: list[RowKey] | None = None
        """The rows that the work of the newest version has still to do; None: it has not begun."""
        self._backfill: Write | None = None
        """A row that the backfill has read and not yet written."""
        self._backfill_ts = 0

    def copy(self) -> Cluster:
        """The same state, which goes on by itself. Values are never changed, only replaced."""
        other = copy(self)
        other.nodes = [replace(node) for node in self.nodes]
        other.store, other.stream, other.history = self.store.copy(), self.stream.copy(), self.history.copy()
        other.job = self.job and replace(self.job)
        other._planner = copy(self._planner)
        other._units = self._units and list(self._units)
        return other

    def state(self) -> Hashable:
        """All that decides what can happen next: equal for states that differ only in their clocks and history."""
        job = self.job and (self.job.kind, self.job.done, self.job.is_cancelled, len(self.job.stages))
        nodes = tuple(
            (node.schema.number, max(0, node.lease_until - self._clock), node.is_up, self._pending(node.transaction))
            for node in self.nodes
        )
        backfill = self._backfill and (self._backfill.row, self._is_changed(self._backfill, self._backfill_ts))
        units = None if self._units is None else tuple(self._units)
        return self.newest.number, job, nodes, self.store.state(), units, backfill

    def _pending(self, transaction: Transaction | None) -> Hashable:
        if not transaction:
            return None
        write = transaction.write
        values = write.after and tuple(write.after.items())
        return transaction.schema.number, write.row, values, self._is_changed(write, transaction.start_ts)

    def _is_changed(self, write: Write, since_ts: int) -> bool:
        return self.store.changed.get(write.row, 0) > since_ts

    # Nodes --------------------------------------------------------------------------------------------

    def serves(self, node: Node) -> bool:
        return node.is_up and (self._clock < node.lease_until or Fault.LEASE in self.faults)

    def schemas_in_use(self) -> list[Schema]:
        """The newest version, and those of nodes that serve and of their transactions."""
        used = {self.newest.number: self.newest}
        for node in filter(self.serves, self.nodes):
            used[node.schema.number] = node.schema
            # Without metadata locks, a transaction of an earlier version will be refused.
            if node.transaction and self.locks_metadata:
                used[node.transaction.schema.number] = node.transaction.schema
        return list(used.values())

    def versions_apart(self) -> int:
        """How many versions lie between the oldest and the newest in use."""
        return self.newest.number - min(schema.number for schema in self.schemas_in_use())

    def load(self, number: int) -> bool:
        """The node loads the newest schema version, which renews its lease."""
        node = self.nodes[number]
        if not node.is_up or (node.schema is self.newest and self._clock + LEASE == node.lease_until):
            return False
        if not self.serves(node):
            node.transaction = None
        if node.schema is not self.newest:
            self.history.add(node.name, f"loads version {self.newest.number}")
        node.schema, node.lease_until = self.newest, self._clock + LEASE
        return True

    def tick(self) -> bool:
        """Time passes."""
        self._clock += 1
        for node in self.nodes:
            if node.is_up and self._clock == node.lease_until:
                self.history.add(node.name, f"its lease ends{', goes on' * (Fault.LEASE in self.faults)}")
        return True

    def crash(self, number: int) -> bool:
        node = self.nodes[number]
        if not node.is_up:
            return False
        node.is_up, node.transaction = False, None
        self.history.add(node.name, "crashes")
        return True

    def restart(self, number: int) -> bool:
        node = self.nodes[number]
        if node.is_up:
            return False
        node.is_up, node.schema, node.lease_until = True, self.newest, self._clock + LEASE
        self.history.add(node.name, f"starts with version {self.newest.number}")
        return True

    # Statements ---------------------------------------------------------------------------------------

    def begin(self, number: int, key: int, value: int | None, table: str = "t") -> bool:
        """A node executes INSERT or UPDATE of a row, whichever is possible; without a value, DELETE."""
        node = self.nodes[number]
        part = node.schema.part_of(table, key)
        if not self.serves(node) or node.transaction or not part or not part.takes(key):
            return False
        row = RowKey(part.id, key)
        before = self.store.rows.get(row)
        if before is None and value is None:
            return False
        write = (
            delete_row(node.schema, row, before)
            if value is None
            else write_row(node.schema, row, before, self.store.truths.get(row, {}), value)
        )
        node.transaction = Transaction(node.name, node.schema, self._ts, table, write)
        return True

    def begin_and_wait(self, number: int, key: int, value: int | None, table: str = "t") -> bool:
        began = self.begin(number, key, value, table)
        if began:
            node = self.nodes[number]
            self.history.add(
                node.name, f"executes {statement_text(node.transaction.write, node.schema)}, does not commit yet"
            )
        return began

    def commit(self, number: int) -> bool:
        """The transaction of a node becomes visible, unless the row or, without metadata locks, the schema has
        changed since it began."""
        node = self.nodes[number]
        transaction, node.transaction = node.transaction, None
        if not transaction or not self.serves(node):
            return False
        write = transaction.write
        if self._is_changed(write, transaction.start_ts):
            return False
        if not self.locks_metadata and transaction.schema is not node.schema:
            return False
        self._ts += 1
        self.store.apply(write, self._ts)
        self.stream.add(RowChange.of(self._ts, node.name, transaction.schema, transaction.table, write))
        self.history.add(node.name, statement_text(write, transaction.schema))
        return True

    def write(self, number: int, key: int, value: int | None, table: str = "t") -> bool:
        return self.begin(number, key, value, table) and self.commit(number)

    # The owner ----------------------------------------------------------------------------------------

    def submit(self, kind: Kind, choice: int = 0) -> bool:
        """A DDL becomes the job that the owner works on. There is one at a time."""
        job = None if self.job else self._planner.plan(kind, self.newest, choice)
        if not job:
            return False
        self.job, self._before_job = job, self.newest
        return self.advance()

    def is_synchronised(self) -> bool:
        """Whether every node that may serve uses the newest version, transactions included."""
        if Fault.WAIT in self.faults:
            return True
        numbers = {self.newest.number}
        for node in self.nodes:
            if node.is_up and self._clock < node.lease_until:
                numbers.add(node.schema.number)
                if node.transaction and self.locks_metadata:
                    numbers.add(node.transaction.schema.number)
        return numbers == {self.newest.number}

    def advance(self) -> bool:
        """The owner makes the next schema version."""
        if not self.job or not self.is_synchronised() or self._work():
            return False
        stage = self.job.stages[self.job.done]
        self.newest = self.newest.next(stage.changes)
        self.store.dropped |= stage.dropped
        self.job.done += 1
        self.history.add("owner", stage_text(self.newest, stage, self.job))
        self._begin_stage(stage)
        return True

    def _begin_stage(self, stage: Stage) -> None:
        self._ts += 1
        self._units = None
        job = self.job
        if not job.first_number and _is_new_data(stage):
            job.first_number = self.newest.number
        if job.is_last and not self._work():
            self._finish()

    def _finish(self) -> None:
        if not self.job.is_cancelled:
            self.stream.add(SchemaChange(self._ts, self.job.kind, self.newest, self.job.first_number))
        self.job = None

    def _work(self) -> Work | None:
        """What is still to be done under the newest version."""
        if not self.job or not self.job.done or self._units == []:
            return None
        return self.job.stages[self.job.done - 1].work

    def read_row(self) -> RowKey | None:
        """The backfill reads its next row, which is returned."""
        work = self._work()
        if not work or work.task is not Task.FILL or not self.is_synchronised() or self._backfill:
            return None
        row = self._next_row()
        if row is None:
            return None
        self._backfill = fill_row(self.newest, work.ids, row, self.store.rows[row], self.store.truths[row])
        self._backfill_ts = self._ts
        self.history.add("owner", f"backfill reads row {row.key}")
        return row

    def write_row(self) -> bool:
        """The backfill writes the row that it has read; a row that has changed since is read again."""
        write, self._backfill = self._backfill, None
        if not write:
            return False
        if Fault.CONFLICT not in self.faults and self._is_changed(write, self._backfill_ts):
            return False
        self._units.remove(write.row)
        self._ts += 1
        if write.before != write.after:
            self.store.apply(write, self._ts)
        self.store.entries |= write.added
        self.history.add("owner", f"backfill writes {row_text(write, self.newest)}")
        return True

    def reorganise(self) -> bool:
        """All of the work at once."""
        work = self._work()
        if not work or not self.is_synchronised() or self._backfill:
            return False
        row = self._next_row()
        while row is not None and self.job:
            self._do(work, row)
            if self._units:
                self._units.remove(row)
            row = self._next_row()
        self.history.add("owner", f"{work.task.value}s {_names(self.newest, work)}")
        if work.task is Task.REMOVE:
            gone = {entry for entry in self.store.entries if work.ids & {entry.index, entry.part}}
            self.store.entries -= gone
        return True

    def _next_row(self) -> RowKey | None:
        if self._units is None:
            self._units = sorted(row for row in self.store.rows if row.part in self.newest.elements)
        self._units = [row for row in self._units if row in self.store.rows]
        return self._units[0] if self._units else None

    def _do(self, work: Work, row: RowKey) -> None:
        before, truth = self.store.rows[row], self.store.truths[row]
        if work.task is Task.VALIDATE:
            schema = self.newest
            if row.part in work.ids and not schema.elements[row.part].takes(row.key):
                self.cancel()
            return
        if work.task is Task.FILL:
            write = fill_row(self.newest, work.ids, row, before, truth)
        else:
            write = clear_row(work.ids, row, before, truth)
        self._ts += 1
        self.store.apply(write, self._ts)

    def cancel(self) -> bool:
        """The job is taken back, if that is still possible."""
        if self.job and not self.job.done:
            self.job = None
            return True
        job = self.job and self._planner.cancelled(self.job, self.newest, self._before_job)
        if not job or self.job.is_cancelled:
            return False
        self.job, self._units, self._backfill = job, [], None
        self.history.add("owner", f"takes {job.kind.value} back")
        return True

    def change_owner(self) -> bool:
        """Another node becomes the owner: jobs are stored, but what the backfill had read and done is not known."""
        if not self.job or (self._units is None and not self._backfill):
            return False
        if self._units == []:
            return False
        self._units, self._backfill = None, None
        self.history.add("owner", "is another node now")
        return True

    def delete_ranges(self) -> bool:
        """The ranges of dropped ids are deleted when nothing uses them any more."""
        if self.job or not self.is_synchronised() or not self.store.dropped:
            return False
        if any(schema is not self.newest for schema in self.schemas_in_use()):
            return False
        self.store.delete_ranges()
        self.history.add("owner", "deletes the ranges of what is dropped")
        return True


def _is_new_data(stage: Stage) -> bool:
    """Whether nodes at this version write rows as they are after the DDL."""
    if stage.work and stage.work.task is Task.VALIDATE:
        return False
    return any(element.state not in {State.DELETE_ONLY, State.REPLICA_ONLY} for element in stage.changes.values())


def _names(schema: Schema, work: Work) -> str:
    return ", ".join(schema.elements[key].name for key in sorted(work.ids) if key in schema.elements)
