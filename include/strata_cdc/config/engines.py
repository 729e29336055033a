"""Engines: where the rows of a run are decoded, and why there.
Not here: decoding (`pipeline/decode/`), starting Spark (`startup/spark.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable


class Engine(StrEnum):
    """What decodes a run."""

    AUTO = "auto"
    """Whichever is sooner done: it depends on the run's size."""
    LOCAL = "local"
    """Threads of the process that does the step."""
    SPARK = "spark"
    """A Spark job."""


ENGINES: Final = tuple(engine.value for engine in Engine)


class EngineSettings(Struct, frozen=True):
    """What the engine of a run depends on, beside the run."""

    engine: Engine = Engine.AUTO
    local_mb: int = 1024
    """The most binlog (megabytes) of a run that `auto` decodes without Spark."""
    local_memory_mb: int = 2048
    """How much memory (megabytes) decoding without Spark may take, at least that of one slice."""


class EngineChoice(Struct, frozen=True):
    """The engine of a run."""

    engine: Engine
    """Never `AUTO`."""
    because: str
    """Why, in a few words."""

    def __str__(self) -> str:
        return f"{self.engine} ({self.because})"


def choose_engine(size_bytes: int, settings: EngineSettings, why_no_spark: Callable[[], str | None]) -> EngineChoice:
    """The engine of a run.

    Args:
        size_bytes: How much binlog the run decodes.
        settings: The engine that is wanted, and up to which size `auto` does without Spark.
        why_no_spark: Says why Spark cannot be started on this machine; None if it can. Called only where it matters.
    """
    if settings.engine is not Engine.AUTO:
        return EngineChoice(settings.engine, "requested")
    shown = f"{max(1, round(size_bytes / 1e6)):,} MB of binlog; local_mb is {settings.local_mb:,}"
    if size_bytes <= settings.local_mb << 20:
        return EngineChoice(Engine.LOCAL, shown)
    missing = why_no_spark()
    if missing is not None:
        return EngineChoice(Engine.LOCAL, missing)
    return EngineChoice(Engine.SPARK, shown)
