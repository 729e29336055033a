"""A machine that draws DDL, statements, delays, lost leases and crashes in any order, and looks for anomalies after
each step.
Not here: what its steps do (`cluster.py`), the tests."""

from __future__ import annotations

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model.anomalies import Anomaly, anomalies
from tests.model.cluster import Cluster
from tests.model.faults import Fault
from tests.model.jobs import EXCHANGED, Kind
from tests.model.schema import Column, Element, Index, Part, State

NODES, KEYS, VALUES = st.sampled_from([0, 1]), st.sampled_from([1, 11, 21]), st.sampled_from([0, 1, None])
PLAIN: tuple[Element, ...] = (
    Column(1, "c1", State.PUBLIC, lineage=1),
    Index(2, "i2", State.PUBLIC, column=1),
    Part(3, "t", State.PUBLIC),
)
TWO_COLUMNS: tuple[Element, ...] = (*PLAIN, Column(4, "c4", State.PUBLIC, lineage=4))
PARTITIONED: tuple[Element, ...] = (
    Column(1, "c1", State.PUBLIC, lineage=1),
    Index(2, "i2", State.PUBLIC, column=1, is_global=True),
    Part(3, "p3", State.PUBLIC, "t", 0, 10),
    Part(4, "p4", State.PUBLIC, "t", 10, 20),
)
EXCHANGE: tuple[Element, ...] = (
    Column(1, "c1", State.PUBLIC, lineage=1),
    Index(2, "i2", State.PUBLIC, column=1),
    Part(3, "p3", State.PUBLIC, "t", *EXCHANGED),
    Part(4, "p4", State.PUBLIC, "t", 10, 20),
    Part(5, "n", State.PUBLIC, "n"),
)
COLUMNS_AND_INDEXES = (
    Kind.ADD_INDEX,
    Kind.DROP_INDEX,
    Kind.ADD_COLUMN,
    Kind.DROP_COLUMN,
    Kind.MODIFY_COLUMN,
    Kind.MULTI_SCHEMA,
    Kind.TRUNCATE_TABLE,
)
PARTITIONS = (Kind.ADD_PARTITION, Kind.DROP_PARTITION, Kind.TRUNCATE_PARTITION)


class AnomalyError(AssertionError):
    """The model has come to a state that may never be."""

    def __init__(self, cluster: Cluster, anomaly: Anomaly) -> None:
        self.cluster, self.anomaly = cluster, anomaly
        super().__init__(f"{anomaly}\n\n{self.table()}")

    def table(self) -> str:
        """The history, as a table."""
        return self.cluster.history.table(str(self.anomaly))


class Machine(RuleBasedStateMachine):
    """All that can happen to a cluster of two nodes. Steps that are refused change nothing."""

    elements: ClassVar[tuple[Element, ...]] = PLAIN
    kinds: ClassVar[tuple[Kind, ...]] = COLUMNS_AND_INDEXES
    faults: ClassVar[frozenset[Fault]] = frozenset()
    steps: ClassVar[int] = 0
    """How many steps were made by all machines of this class."""
    finished: ClassVar[list[Cluster]] = []
    """If it is a list of a class, its clusters."""

    @initialize(locks_metadata=st.booleans())
    def start(self, locks_metadata: bool) -> None:
        self.has_second_table = any(isinstance(element, Part) and element.table == "n" for element in self.elements)
        self.cluster = Cluster(list(self.elements), faults=self.faults, locks_metadata=locks_metadata)

    # Few rules, since Hypothesis excludes some of them from most of its runs.

    @rule(node=NODES, key=KEYS, value=VALUES, is_second=st.booleans())
    def write(self, node: int, key: int, value: int | None, is_second: bool) -> None:
        self.cluster.write(node, key, value, "n" if is_second and self.has_second_table else "t")

    @rule(first=NODES, key=KEYS, value=st.integers(0, 1), later=VALUES)
    def write_by_both(self, first: int, key: int, value: int, later: int | None) -> None:
        """The second node goes on with what the first has written."""
        self.cluster.write(first, key, value)
        self.nothing_is_wrong()
        self.cluster.write(1 - first, key, later)

    @precondition(lambda self: any(node.schema is not self.cluster.newest for node in self.cluster.nodes))
    @rule(node=NODES)
    def load(self, node: int) -> None:
        self.cluster.load(node)

    @rule(data=st.data(), choice=st.integers(0, 2), does_work=st.booleans())
    def own(self, data: st.DataObject, choice: int, does_work: bool) -> None:
        """The owner begins a DDL or goes on with it; without the work, it may have to wait for that."""
        if not self.cluster.job:
            self.cluster.submit(data.draw(st.sampled_from(self.kinds)), choice)
            return
        if does_work:
            self.cluster.reorganise()
        self.cluster.advance()

    @precondition(lambda self: self.cluster.job)
    @rule(loads=st.sampled_from([(0, 1), (1, 0)]))
    def synchronise(self, loads: tuple[int, int]) -> None:
        """All nodes load, the work is done, and the owner goes on; then a node knows of it, or none."""
        for node in loads:
            self.cluster.load(node)
        self.cluster.reorganise()
        self.cluster.advance()

    @precondition(lambda self: self.cluster.job and self.cluster.store.rows)
    @rule(node=NODES, value=VALUES, writes=st.booleans())
    def backfill(self, node: int, value: int | None, writes: bool) -> None:
        """While the backfill works on a row, a node may write it."""
        for number in range(2):
            self.cluster.load(number)
        row = self.cluster.read_row()
        if row and writes:
            self.cluster.write(node, row.key, value)
        self.cluster.write_row()

    @rule(ticks=st.integers(1, 2))
    def wait(self, ticks: int) -> None:
        for _ in range(ticks):
            self.cluster.tick()

    @rule(
        what=st.sampled_from(["execute", "commit", "restart", "delete_ranges", "change_owner", "cancel", "crash"]),
        node=NODES,
        key=KEYS,
        value=VALUES,
    )
    def disturb(self, what: str, node: int, key: int, value: int | None) -> None:
        if what == "execute":
            self.cluster.begin_and_wait(node, key, value)
        else:
            getattr(self.cluster, what)(*([node] if what in {"commit", "restart", "crash"} else []))

    @invariant()
    def nothing_is_wrong(self) -> None:
        type(self).steps += 1
        for anomaly in anomalies(self.cluster):
            raise AnomalyError(self.cluster, anomaly)

    @invariant()
    def two_versions_are_in_use_at_most(self) -> None:
        if not self.faults & {Fault.WAIT, Fault.LEASE}:
            assert self.cluster.versions_apart() <= 1

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            type(self).finished.append(self.cluster)
