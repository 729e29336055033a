"""All states that a small cluster can reach, breadth first: none of them may be wrong, and without a rule the first
that is wrong has the shortest history that leads there. `python -m tests.model.shortest` prints these histories.
Not here: large clusters and long histories, which are drawn (`machine.py`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from tests.model.anomalies import Anomaly, AnomalyKind, anomalies
from tests.model.cluster import Cluster
from tests.model.faults import Fault
from tests.model.jobs import Kind
from tests.model.machine import EXCHANGE, PARTITIONED, PLAIN, TWO_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tests.model.schema import Element

Action = tuple[str, tuple[object, ...]]
"""A method of the cluster, with its arguments."""
STATEMENTS: Final[tuple[Action, ...]] = tuple(("write", (node, 1, value)) for node in (0, 1) for value in (None, 1, 2))
OWNER: Final[tuple[Action, ...]] = (("advance", ()), ("reorganise", ()))
LOADS: Final[tuple[Action, ...]] = (("load", (0,)), ("load", (1,)))
BACKFILL: Final[tuple[Action, ...]] = (("read_row", ()), ("write_row", ()))
EXCHANGED_ROWS: Final[tuple[Action, ...]] = tuple(
    ("write", (node, 11, value, "n")) for node in (0, 1) for value in (None, 1)
)
ROW_OF_NEW_PARTITION: Final[tuple[Action, ...]] = (("write", (0, 21, 1)),)
TIME: Final[tuple[Action, ...]] = (("tick", ()),)
AFTERWARDS: Final[tuple[Action, ...]] = (("delete_ranges", ()),)
TRANSACTIONS: Final[tuple[Action, ...]] = (
    *(("begin_and_wait", (0, 1, value)) for value in (None, 1)),
    ("commit", (0,)),
)
TROUBLE: Final[tuple[Action, ...]] = (("cancel", ()), ("change_owner", ()), ("crash", (1,)), ("restart", (1,)))
USUAL: Final = (*STATEMENTS, *LOADS, *OWNER)


class Scenario(Struct, frozen=True):
    """One DDL on a small cluster, without some of the rules."""

    kind: Kind
    fault: Fault | None = None
    wanted: AnomalyKind | None = None
    """The kind of anomaly that has to come of it."""
    elements: tuple[Element, ...] = PLAIN
    actions: tuple[Action, ...] = USUAL
    locks_metadata: bool = False

    @property
    def title(self) -> str:
        """Of a scenario that is without a rule."""
        return f"{self.kind.value}, {self.fault.value}: {self.wanted.value}"


_TWO_COLUMNS = {Kind.DROP_COLUMN, Kind.MODIFY_COLUMN, Kind.MULTI_SCHEMA}
_PARTITIONS = {Kind.ADD_PARTITION, Kind.DROP_PARTITION, Kind.TRUNCATE_PARTITION}


def all_rules(kind: Kind, more: tuple[Action, ...] = (), locks_metadata: bool = False) -> Scenario:
    """A DDL with all of its rules, on a table that it can be about."""
    elements = TWO_COLUMNS if kind in _TWO_COLUMNS else PARTITIONED if kind in _PARTITIONS else PLAIN
    actions = (*USUAL, *more)
    if kind is Kind.EXCHANGE_PARTITION:
        elements, actions = EXCHANGE, (*actions, *EXCHANGED_ROWS)
    if kind is Kind.ADD_PARTITION:
        actions = (*actions, *ROW_OF_NEW_PARTITION)
    return Scenario(kind, elements=elements, actions=actions, locks_metadata=locks_metadata)


SCENARIOS: Final = (
    Scenario(Kind.ADD_INDEX, Fault.DELETE_ONLY, AnomalyKind.ORPHAN),
    Scenario(Kind.ADD_INDEX, Fault.WRITE_ONLY, AnomalyKind.MISSING),
    Scenario(Kind.ADD_INDEX, Fault.REORGANISATION, AnomalyKind.MISSING),
    Scenario(Kind.ADD_INDEX, Fault.CONFLICT, AnomalyKind.ORPHAN, actions=(*USUAL, *BACKFILL)),
    Scenario(Kind.ADD_INDEX, Fault.WAIT, AnomalyKind.ORPHAN),
    Scenario(Kind.ADD_INDEX, Fault.LEASE, AnomalyKind.ORPHAN, actions=(*USUAL, *TIME)),
    Scenario(Kind.DROP_INDEX, Fault.DELETE_ONLY, AnomalyKind.ORPHAN),
    Scenario(Kind.DROP_INDEX, Fault.WRITE_ONLY, AnomalyKind.MISSING),
    Scenario(Kind.ADD_COLUMN, Fault.WRITE_ONLY, AnomalyKind.MISSING),
    Scenario(Kind.DROP_COLUMN, Fault.WRITE_ONLY, AnomalyKind.MISSING, TWO_COLUMNS),
    Scenario(Kind.MODIFY_COLUMN, Fault.TAIL, AnomalyKind.ORPHAN),
    Scenario(Kind.MODIFY_COLUMN, Fault.TAIL, AnomalyKind.MISSING),
    Scenario(Kind.MULTI_SCHEMA, Fault.WRITE_ONLY, AnomalyKind.MISSING),
    Scenario(Kind.ADD_PARTITION, Fault.REPLICA_ONLY, AnomalyKind.UNKNOWN, PARTITIONED, (*USUAL, *ROW_OF_NEW_PARTITION)),
    Scenario(Kind.TRUNCATE_PARTITION, Fault.REPLICA_ONLY, AnomalyKind.UNKNOWN, PARTITIONED),
    Scenario(Kind.DROP_PARTITION, Fault.REORGANISATION, AnomalyKind.UNKNOWN, PARTITIONED),
    Scenario(Kind.EXCHANGE_PARTITION, Fault.EXCHANGE_CHECK, AnomalyKind.ORPHAN, EXCHANGE, (*USUAL, *EXCHANGED_ROWS)),
)


def reachable(scenario: Scenario, also: Callable[[Cluster], Hashable] = lambda _: None) -> Iterator[Cluster]:
    """Every state once, those with the shortest histories first; states differ also by what `also` returns."""
    faults = frozenset([scenario.fault] if scenario.fault else [])
    first = Cluster(list(scenario.elements), faults=faults, locks_metadata=scenario.locks_metadata)
    seen = {(first.state(), also(first))}
    waiting = deque([first])
    while waiting:
        cluster = waiting.popleft()
        yield cluster
        submitted = [] if cluster.newest.number else [("submit", (scenario.kind,))]
        for name, arguments in (*submitted, *scenario.actions):
            following = cluster.copy()
            if not getattr(following, name)(*arguments):
                continue
            state = (following.state(), also(following))
            if state not in seen:
                seen.add(state)
                waiting.append(following)


def shortest(scenario: Scenario) -> tuple[Cluster, Anomaly] | None:
    """The first state with the anomaly that is wanted; None if none of all states has it."""
    for cluster in reachable(scenario):
        for anomaly in anomalies(cluster):
            if scenario.wanted in {None, anomaly.kind}:
                return cluster, anomaly
    return None


def history_table(scenario: Scenario) -> str:
    """The shortest history as a table."""
    cluster, anomaly = shortest(scenario)
    return cluster.history.table(str(anomaly))


def main() -> None:
    for scenario in SCENARIOS:
        print(f"### {scenario.title}\n\n{history_table(scenario)}\n")


if __name__ == "__main__":
    main()
