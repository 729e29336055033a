"""The model of the scripts with one rule left out each: what the machine has to find, or the rule is not needed.
Not here: the model."""

from __future__ import annotations

from typing import Any

from tests.cache.model import ModelServer


class FillsWhatIsAbsent(ModelServer):
    """An entry that was evicted takes any fill."""

    def fill(self, entries: list[str], arguments: list[str]) -> list[Any]:
        if entries[0] not in self.entries and self.state:
            arguments = [*arguments[:3], self.state["checkpoint"], *arguments[4:]]
        return super().fill(entries, arguments)


class FillsOverMarks(ModelServer):
    """A mark is as little as nothing, and the checkpoint is not asked either."""

    def fill(self, entries: list[str], arguments: list[str]) -> list[Any]:
        if "value" not in self.entries.get(entries[0], {"value": 0}):
            self.entries[entries[0]]["token"] = ""
        return super().fill(entries, arguments)


class KeepsAllValues(ModelServer):
    """An invalidation takes each value for fresh enough."""

    def invalidate(self, entries: list[str], arguments: list[str]) -> list[Any]:
        values = {key: dict(entry) for key, entry in self.entries.items() if "value" in entry}
        found = super().invalidate(entries, arguments)
        if found[0] == "done":
            self.entries |= values
        return found


MUTANTS = [FillsOverMarks, FillsWhatIsAbsent, KeepsAllValues]
