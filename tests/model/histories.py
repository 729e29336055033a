"""What happened, as a table: a line for each step, a column for each actor.
Not here: finding a short history (`shortest.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tests.model.jobs import Job, Stage
    from tests.model.schema import Index, Schema
    from tests.model.store import Entry, Write


class Event(Struct, frozen=True):
    """A step of one actor."""

    actor: str
    text: str


class History:
    """The steps so far."""

    def __init__(self, nodes: list[str]) -> None:
        self._actors = ["owner", *nodes]
        self.events: list[Event] = []

    def add(self, actor: str, text: str) -> None:
        self.events.append(Event(actor, text))

    def copy(self) -> History:
        other = History(self._actors[1:])
        other.events = list(self.events)
        return other

    def table(self, end: str) -> str:
        """As a table of Markdown, with what came of it in the last line. Actors without a step have no column."""
        actors = [actor for actor in self._actors if any(event.actor == actor for event in self.events)]
        lines = ["| | " + " | ".join(actors) + " |", "|---|" + "---|" * len(actors)]
        for number, event in enumerate(self.events, 1):
            cells = [event.text if event.actor == actor else "" for actor in actors]
            lines.append(f"| {number} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", f"**{end[0].upper()}{end[1:]}.**"])


def entry_text(entry: Entry, index: Index | None = None) -> str:
    name = index.name if index else f"i{entry.index}"
    return f"{name}({entry.value}) -> row {entry.key}"


def statement_text(write: Write, schema: Schema) -> str:
    """A statement with its values, and what it makes of indexes."""
    op = "DELETE" if write.after is None else "INSERT" if write.before is None else "UPDATE"
    return f"{op} {row_text(write, schema)}"


def row_text(write: Write, schema: Schema) -> str:
    names = {key: element.name for key, element in schema.elements.items()}
    values = ", ".join(f"{names[key]}={value}" for key, value in (write.after or {}).items() if key in names)
    signs = [("+", write.added - write.removed), ("-", write.removed - write.added)]
    entries = [
        f", {sign} {entry_text(entry, schema.elements[entry.index])}"
        for sign, those in signs
        for entry in sorted(those)
    ]
    return f"row {write.row.key}" + f" ({values})" * bool(values) + "".join(entries)


def stage_text(schema: Schema, stage: Stage, job: Job) -> str:
    """A version that the owner makes."""
    states = ", ".join(f"{element.name} {element.state.label}" for element in stage.changes.values())
    begin = f"{job.kind.value}: " if job.done == 1 and not job.is_cancelled else ""
    return f"{begin}version {schema.number}: {stage.text or states}"
