"""The rules of an online schema change that a cluster can be without; then the model has to find an anomaly.
Not here: what comes of it (`jobs.py`, `cluster.py`)."""

from __future__ import annotations

from enum import Enum


class Fault(Enum):
    """A rule that is not kept, in the words of the documentation."""

    DELETE_ONLY = "no delete-only state"
    WRITE_ONLY = "no write-only state"
    REORGANISATION = "no reorganisation"
    WAIT = "the owner does not wait for the nodes"
    LEASE = "a node goes on without a lease"
    CONFLICT = "the backfill does not notice that a row has changed"
    TAIL = "no states after the swap"
    REPLICA_ONLY = "no version in which a new partition is only known"
    EXCHANGE_CHECK = "the check ends with the swap"
