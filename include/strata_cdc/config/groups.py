"""Groups of sources in the settings: shards that are read as one stream.
Not here: sources (`settings.py`), what uses a group (`groups`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from strata_cdc.config.source_kinds import is_sink
from strata_cdc.fields import nearest, read_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from strata_cdc.fields import Mistakes

NAME: Final = re.compile("(?=.*[A-Za-z0-9])[A-Za-z0-9_-]{1,64}")
"""The name of a source or a group; the store allows no longer name."""
_MICROS: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DURATION: Final = re.compile(r"(\d{1,6})(ms|s|m|h)")

_Sources = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Meta(min_length=1, description='a list of one source or more, as in ["shard_a", "shard_b"]'),
]
_Texts = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(description='a list of texts, as in ["shop.*"]')
]
Duration = Annotated[str, Meta(pattern=r"^\d{1,6}(ms|s|m|h)$", description='a time, as in "500ms", "2s" or "5m"')]
_Column = Annotated[
    str,
    Meta(pattern=r"^[^.]+\.[^.]+\.[^.]+$", description='database.table.column, as in "_vt.blp_checkpoint.pos"'),
]
_File = Annotated[str, Meta(min_length=1, description="the path of a file, a text")]


class GroupSettings(Struct, frozen=True):
    """The settings of one group."""

    sources: _Sources
    """Names of its sources: shards with the same tables. A source is in one group at most."""
    max_skew: Duration = "2s"
    """How much further than the slowest source, in commit time, a source may be read."""
    clock_bound: Duration = "1s"
    """The step by which a server's clock is corrected: clocks that differ by less than half of it count as equal."""
    global_keys: _Texts = ()
    """Patterns of `database.table` whose keys are unique over all sources; for other tables `_source` is part of the
    key."""
    journal: _File | None = None
    """File of the switchovers (hops) from old sources to new sources (docs/groups.md)."""
    source_gtid_column: _Column | None = None
    """The column in which copiers keep the old source's GTID set, in the transactions with which they copy to a new
    source."""


def micros_of(duration: str) -> int:
    """A duration of the settings in microseconds."""
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"{duration!r} is no duration")
    return int(match[1]) * _MICROS[match[2]]


def take_groups(given: Mapping[str, Any], sources: Mapping[str, Any], mistakes: Mistakes) -> dict[str, GroupSettings]:
    """The groups of a file; mistakes in them are added to `mistakes`.

    Args:
        given: The table of the groups.
        sources: The sources that the file has.
        mistakes: Gets the mistakes.
    """
    groups: dict[str, GroupSettings] = {}
    owners: dict[str, str] = {}
    for name, table in given.items():
        path = ("groups", name)
        _check_name(name, sources, mistakes)
        if not isinstance(table, dict):
            mistakes.add(path, f"groups.{name} is not a table")
            continue
        good = read_fields(GroupSettings, table, path, mistakes, noun="setting")
        _check_members(name, good.get("sources", ()), sources, owners, mistakes)
        _check_values(name, good, mistakes)
        if not mistakes:
            groups[name] = GroupSettings(**good)
    return groups


def _check_name(name: str, sources: Collection[str], mistakes: Mistakes) -> None:
    if not NAME.fullmatch(name):
        mistakes.add(("groups", name), f"groups.{name}: a name has letters, digits, - and _, at most 64")
    if name in sources:
        mistakes.add(("groups", name), f"groups.{name}: a source is called {name}, too; give the group another name")


def _check_values(name: str, good: Mapping[str, Any], mistakes: Mistakes) -> None:
    path = ("groups", name)
    check_clock_bound(good, path, mistakes)
    for pattern in good.get("global_keys", ()):
        if "." not in pattern:
            mistakes.add(
                (*path, "global_keys"),
                f'groups.{name}.global_keys: "{pattern}" matches no table: it has no dot, as in "{pattern}.*"',
            )


def check_clock_bound(good: Mapping[str, Any], path: tuple[str, ...], mistakes: Mistakes) -> None:
    """Refuses a bound of 0, which no two clocks keep."""
    where = (*path, "clock_bound")
    if good.get("clock_bound") and not micros_of(good["clock_bound"]):
        mistakes.add(where, f"{'.'.join(where)} is 0: no two clocks are equal")


def _check_members(
    group: str, members: Collection[str], sources: Mapping[str, Any], owners: dict[str, str], mistakes: Mistakes
) -> None:
    path = ("groups", group, "sources")
    for member in members:
        if member not in sources:
            mistakes.add(
                path, f"groups.{group}.sources: there is no source {member!r}{nearest(member, sorted(sources))}"
            )
        elif is_sink(sources[member]):
            mistakes.add(path, f"groups.{group}.sources: {member} is the folder of a TiCDC sink, and has no server")
        elif owners.get(member) == group:
            mistakes.add(path, f"groups.{group}.sources: {member} is in it twice")
        elif member in owners:
            mistakes.add(path, f"groups.{group}.sources: {member} is in the group {owners[member]} already")
        owners.setdefault(member, group)
