"""Caches on Redis or Valkey that never serve what an acknowledged invalidation has made old. docs/caches.md has the
guarantee. Readers fill entries with tokens; an invalidator follows the update stream; an inspector proves it.
Not here: tokens with queries (`tokens/`), the update stream (`streams/`)."""

from strata_cdc.cache.reader import Cache
from strata_cdc.cache.shapes import Shape, Shapes

__all__ = ["Cache", "Shape", "Shapes"]
