"""How much a web server of ours keeps for others, and how long it waits for them.
Not here: what one reader of a stream may take (`streaming/reader.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Of one server; the defaults are those of `strata serve` and of Airflow's web server."""

    head_bytes: int = 256 << 10
    """Of a request's line and headers together: both may have a token of 100,000 characters."""
    head_seconds: float = 10.0
    """So long a head may take, from the connection or its first byte on."""
    most_waiting: int = 256
    """Connections without a whole head; the oldest is closed for one more."""
    body_bytes: int = 1 << 20
    """More than the longest list of tokens that anybody merges."""
    body_seconds: float = 20.0
    """So long a body may take, from the head on."""
    least_age_seconds: float = 10.0
    """Numbers of a source that are younger are not read again for a page."""
    age_share: float = 20
    """Numbers that took a second to read are read again after so many."""
    recent_bytes: int = 32 << 20
    """Of a stream's decoded spans; a reader with a larger lag reads alone."""
    written_bytes: int = 16 << 20
    """Of a stream's lines, for all kinds of readers together: each has the same share."""
    linger_seconds: float = 10.0
    """So long a stream is decoded on for the next reader when the last one has gone."""
