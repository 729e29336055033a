"""What a process's environment tells the libraries that decoding needs, before they are loaded.
Not here: settings of Strata's own (`config/`), with which settings Spark begins (`startup/spark.py`)."""

from __future__ import annotations

import sys

LIBRARIES = {
    # NumPy's OpenBLAS starts threads that spin for work, and there is none for them here.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's own choice, mimalloc, takes memory in pages of 2 MB: a third more of it, and the kernel clears them all.
    # Its builds for other systems have no other.
    **({"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"} if sys.platform == "linux" else {}),
}
"""Defaults: who has set one of them knows better."""
