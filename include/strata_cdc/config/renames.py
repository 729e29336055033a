"""The setting `mirror_renames`: what becomes of mirrors whose tables rename columns, for all of them or by pattern.
Not here: the other settings (`settings.py`), what each choice does (`mirrors/renames.py`)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

_Rename = Literal["copy", "keep", "add"]
# What can match a table has a dot, or something that stands for one.
_Pattern = Annotated[str, Meta(pattern=r"[.*?\[]")]
MirrorRenames = Annotated[
    _Rename | dict[_Pattern, _Rename],
    Meta(description='one of "copy", "keep" and "add", or a table of these by pattern, as in {"shop.*" = "keep"}'),
]
