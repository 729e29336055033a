"""DDL as TiDB does it: the schema versions of each kind, and the work that has to be finished in one of them.
Not here: when the owner goes on to the next version (`cluster.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from tests.model.faults import Fault
from tests.model.schema import Column, Element, Index, Part, Schema, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ADDED: Final = (State.DELETE_ONLY, State.WRITE_ONLY, State.WRITE_REORGANISATION)
_REMOVED: Final = (State.WRITE_ONLY, State.DELETE_ONLY, State.DELETE_REORGANISATION)
_STATES_WITHOUT: Final = {
    Fault.DELETE_ONLY: {State.DELETE_ONLY, State.DELETE_REORGANISATION},
    Fault.WRITE_ONLY: {State.WRITE_ONLY, State.WRITE_REORGANISATION},
    Fault.REPLICA_ONLY: {State.REPLICA_ONLY},
}
NEW_DEFAULT: Final = 7
"""The default of added columns, which no statement writes."""
_PARTITIONS: Final = 3
"""No more are added."""
EXCHANGED: Final = (0, 10)
"""The keys of the partition that EXCHANGE PARTITION takes."""


class Kind(Enum):
    """The kinds of DDL, by their SQL."""

    ADD_COLUMN = "ADD COLUMN"
    DROP_COLUMN = "DROP COLUMN"
    ADD_INDEX = "ADD INDEX"
    DROP_INDEX = "DROP INDEX"
    MODIFY_COLUMN = "MODIFY COLUMN"
    MULTI_SCHEMA = "ADD COLUMN, ADD INDEX, DROP INDEX"
    ADD_PARTITION = "ADD PARTITION"
    DROP_PARTITION = "DROP PARTITION"
    TRUNCATE_PARTITION = "TRUNCATE PARTITION"
    EXCHANGE_PARTITION = "EXCHANGE PARTITION"
    TRUNCATE_TABLE = "TRUNCATE TABLE"


class Task(Enum):
    """What is done to all rows or entries while a version is valid."""

    FILL = "fill"
    REMOVE = "remove"
    VALIDATE = "validate"


class Work(Struct, frozen=True):
    """A task, and the elements that it is about."""

    task: Task
    ids: frozenset[int]


class Stage(Struct, frozen=True):
    """A schema version that a DDL makes."""

    changes: dict[int, Element]
    work: Work | None = None
    """To be finished, with all nodes at this version, before the next one is made."""
    dropped: frozenset[int] = frozenset()
    """Ids that are given up with this version, for the deletion of ranges."""
    text: str = ""
    """What the version is about, if it is not about states."""


class Job(Struct):
    """A DDL on its way."""

    kind: Kind
    stages: list[Stage]
    done: int = 0
    """How many of the stages are schema versions by now."""
    first_number: int = 0
    """The first schema version under which rows may look as they do after the DDL."""
    is_cancelled: bool = False

    @property
    def is_last(self) -> bool:
        return self.done == len(self.stages)


class Planner:
    """Makes jobs, without the states that the faults exclude."""

    def __init__(self, faults: frozenset[Fault]) -> None:
        self._faults = faults
        self._missing = frozenset().union(*(_STATES_WITHOUT.get(fault, set()) for fault in faults))
        self._next_id = 9

    def plan(self, kind: Kind, schema: Schema, choice: int) -> Job | None:
        """The job of a DDL; None if the schema has nothing that it could be about. `choice` draws among elements."""
        stages = _PLANS[kind](self, schema, choice)
        return Job(kind, stages) if stages else None

    def cancelled(self, job: Job, schema: Schema, public: Schema) -> Job | None:
        """The job that takes a job back: its new elements go as DROP would let them go. None: it cannot be taken back,
        since something that users saw has begun to go. `public` is the schema from before."""
        new = [element for element in schema.elements.values() if element.id not in public.elements]
        if any(element.state.reads for element in new) or self._has_begun_to_remove(schema, public):
            return None
        restored = {key: element for key, element in public.elements.items() if schema.elements[key] != element}
        states = [state for state in _REMOVED[1:] if any(element.state is not State.REPLICA_ONLY for element in new)]
        stages = self._through(new, states, Task.REMOVE)
        stages.append(Stage({**_in(new, State.NONE), **restored}))
        return Job(job.kind, stages, is_cancelled=True)

    @staticmethod
    def _has_begun_to_remove(schema: Schema, public: Schema) -> bool:
        later = (schema.elements.get(key) for key in public.elements)
        states = [element.state if element else State.NONE for element in later]
        moved = any(
            isinstance(element, Part)
            and isinstance(now := schema.elements.get(key), Part)
            and now.table != element.table
            for key, element in public.elements.items()
        )
        return moved or any(state is not State.PUBLIC for state in states)

    # Elements -----------------------------------------------------------------------------------------

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def new_column(self) -> Column:
        number = self.new_id()
        return Column(number, f"c{number}", State.NONE, lineage=number, default=NEW_DEFAULT)

    def new_index(self, schema: Schema, choice: int) -> Index:
        number = self.new_id()
        column = _chosen(schema.public_columns, choice)
        is_global = any(index.is_global for index in schema.indexes)
        return Index(number, f"i{number}", State.NONE, column.id, is_global)

    # Stages -------------------------------------------------------------------------------------------

    def _through(self, elements: Iterable[Element], states: Iterable[State], task: Task) -> list[Stage]:
        """A version for each state that is not excluded; the last has the work."""
        elements = list(elements)
        changes = [_in(elements, state) for state in states if state not in self._missing]
        works = [None] * (len(changes) - 1) + [self._work(task, elements)]
        return [Stage(change, work) for change, work in zip(changes, works, strict=False)]

    def _work(self, task: Task, elements: Iterable[Element]) -> Work | None:
        if Fault.REORGANISATION in self._faults and task is not Task.VALIDATE:
            return None
        return Work(task, frozenset(element.id for element in elements))

    def add_column(self, schema: Schema, choice: int) -> list[Stage]:
        column = self.new_column()
        return [*self._through([column], _ADDED, Task.FILL), Stage(_in([column], State.PUBLIC))]

    def add_index(self, schema: Schema, choice: int) -> list[Stage]:
        index = self.new_index(schema, choice)
        return [*self._through([index], _ADDED, Task.FILL), Stage(_in([index], State.PUBLIC))]

    def drop_column(self, schema: Schema, choice: int) -> list[Stage]:
        if len(schema.public_columns) < 2:
            return []
        column = _chosen(schema.public_columns, choice)
        gone = [column, *_indexes_of(schema, column)]
        return [*self._through(gone, _REMOVED, Task.REMOVE), Stage(_in(gone, State.NONE))]

    def drop_index(self, schema: Schema, choice: int) -> list[Stage]:
        gone = [_chosen(schema.public_indexes, choice)] if schema.public_indexes else []
        return [*self._through(gone, _REMOVED, Task.REMOVE), Stage(_in(gone, State.NONE))] if gone else []

    def modify_column(self, schema: Schema, choice: int) -> list[Stage]:
        """A hidden column with hidden indexes becomes public; with the same version the old ones begin to go."""
        old = _chosen(schema.public_columns, choice)
        number = self.new_id()
        # Without a default: rows that have only that of the old column are filled, too.
        new = replace(old, id=number, name=f"{old.name}'", is_text=not old.is_text, default=None)
        gone: list[Element] = [old, *_indexes_of(schema, old)]
        added: list[Element] = [new]
        added += [
            replace(index, id=self.new_id(), name=f"{index.name}'", column=number) for index in _indexes_of(schema, old)
        ]
        stages = self._through(added, _ADDED, Task.FILL)
        public = _in(added, State.PUBLIC)
        if Fault.TAIL in self._faults:
            dropped = frozenset(element.id for element in gone)
            return [*stages, Stage({**public, **_in(gone, State.NONE)}, dropped=dropped)]
        tail = self._through(gone, _REMOVED, Task.REMOVE)
        swap = replace(tail[0], changes={**public, **tail[0].changes}) if tail else Stage(public)
        return [*stages, swap, *tail[1:], Stage(_in(gone, State.NONE))]

    def multi_schema(self, schema: Schema, choice: int) -> list[Stage]:
        """What is added goes, one after the other, as far as it could be taken back; then all turns in one version;
        then the rest of what is dropped."""
        if not schema.public_indexes:
            return []
        column, index = self.new_column(), self.new_index(schema, choice)
        gone = [_chosen(schema.public_indexes, choice)]
        stages = [*self._through([column], _ADDED, Task.FILL), *self._through([index], _ADDED, Task.FILL)]
        tail = self._through(gone, _REMOVED, Task.REMOVE)
        public = _in([column, index], State.PUBLIC)
        turn = replace(tail[0], changes={**public, **tail[0].changes}) if tail else Stage(public)
        return [*stages, turn, *tail[1:], Stage(_in(gone, State.NONE))]

    # Partitions ---------------------------------------------------------------------------------------

    def add_partition(self, schema: Schema, choice: int) -> list[Stage]:
        parts = _partitions(schema)
        if not parts or len(parts) == _PARTITIONS:
            return []
        low = max(part.high for part in parts)
        number = self.new_id()
        part = Part(number, f"p{number}", State.NONE, "t", low, low + 10)
        return [*self._through([part], [State.REPLICA_ONLY], Task.FILL), Stage(_in([part], State.PUBLIC))]

    def drop_partition(self, schema: Schema, choice: int) -> list[Stage]:
        parts = _partitions(schema)
        if len(parts) < 2:
            return []
        gone = [_chosen(parts, choice)]
        last = Stage(_in(gone, State.NONE), dropped=frozenset([gone[0].id]))
        return [*self._through(gone, _REMOVED, Task.REMOVE), last]

    def truncate_partition(self, schema: Schema, choice: int) -> list[Stage]:
        """The new partition is known (TiDB calls this state write-only), then it is used and the old one only known,
        then entries of global indexes are removed."""
        parts = _partitions(schema)
        if not parts:
            return []
        old = _chosen(parts, choice)
        number = self.new_id()
        new = replace(old, id=number, name=f"{old.name}'")
        known = self._through([new], [State.REPLICA_ONLY], Task.FILL)
        tail = self._through([old], _REMOVED[1:], Task.REMOVE)
        used = {**_in([new], State.PUBLIC), **(tail[0].changes if tail else _in([old], State.WRITE_ONLY))}
        last = Stage(_in([old], State.NONE), dropped=frozenset([old.id]))
        return [*known, Stage(used), *tail[1:], last]

    def exchange_partition(self, schema: Schema, choice: int) -> list[Stage]:
        """Rows of the other table are held to the partition's keys, the two change their ids, and the check ends when
        no node has the ids of before."""
        other = next((part for part in schema.public_parts if part.table == "n"), None)
        part = next((part for part in _partitions(schema) if (part.low, part.high) == EXCHANGED), None)
        if not other or not part:
            return []
        checked = replace(other, accepts=EXCHANGED)
        inside = replace(part, id=other.id)
        outside = replace(other, id=part.id)
        restricted = f"{other.name} takes keys {EXCHANGED[0]} to {EXCHANGED[1] - 1} only"
        stages = [Stage({other.id: checked}, self._work(Task.VALIDATE, [other]), text=restricted)]
        swapped = f"{part.name} and {other.name} have each other's rows"
        if Fault.EXCHANGE_CHECK in self._faults:
            return [*stages, Stage({other.id: inside, part.id: outside}, text=f"{swapped}, {other.name} takes any key")]
        still_checked = {other.id: inside, part.id: replace(outside, accepts=EXCHANGED)}
        return [
            *stages,
            Stage(still_checked, text=swapped),
            Stage({part.id: outside}, text=f"{other.name} takes any key"),
        ]

    def truncate_table(self, schema: Schema, choice: int) -> list[Stage]:
        """At once: new ids of everything that stores rows. Nodes that do not know yet write to the old ids."""
        parts = [part for part in schema.public_parts if part.table == "t"]
        gone = [*parts, *(index for index in schema.indexes if index.is_global)]
        renewed = {}
        for element in gone:
            number = self.new_id()
            renewed[number] = replace(element, id=number)
        return [Stage({**_in(gone, State.NONE), **renewed}, dropped=frozenset(element.id for element in gone))]


_PLANS: Final[dict[Kind, Callable[[Planner, Schema, int], list[Stage]]]] = {
    Kind.ADD_COLUMN: Planner.add_column,
    Kind.DROP_COLUMN: Planner.drop_column,
    Kind.ADD_INDEX: Planner.add_index,
    Kind.DROP_INDEX: Planner.drop_index,
    Kind.MODIFY_COLUMN: Planner.modify_column,
    Kind.MULTI_SCHEMA: Planner.multi_schema,
    Kind.ADD_PARTITION: Planner.add_partition,
    Kind.DROP_PARTITION: Planner.drop_partition,
    Kind.TRUNCATE_PARTITION: Planner.truncate_partition,
    Kind.EXCHANGE_PARTITION: Planner.exchange_partition,
    Kind.TRUNCATE_TABLE: Planner.truncate_table,
}


def _in(elements: Iterable[Element], state: State) -> dict[int, Element]:
    return {element.id: replace(element, state=state) for element in elements}


def _chosen(elements: list[Element], choice: int) -> Element:
    return elements[choice % len(elements)]


def _indexes_of(schema: Schema, column: Column) -> list[Index]:
    return [index for index in schema.public_indexes if index.column == column.id]


def _partitions(schema: Schema) -> list[Part]:
    return [part for part in schema.public_parts if part.table == "t" and part.high < 1_000]
