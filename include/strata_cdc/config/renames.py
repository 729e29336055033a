"""The setting `mirror_renames`: what a mirror does if its table renames columns, for all tables or by pattern.
Not here: the other settings (`settings.py`), what each choice does (`mirrors/renames.py`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

_Rename = Literal["copy", "keep", "add"]
# A pattern that can match a table has a dot, or a wildcard that can match a dot.
_Pattern = Annotated[str, Meta(pattern=r"[.*?\[]")]
MirrorRenames = Annotated[
    _Rename | dict[_Pattern, _Rename],
    Meta(description='one of "copy", "keep" and "add", or a table of these by pattern, as in {"shop.*" = "keep"}'),
]
