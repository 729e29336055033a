"""Judgement: expectations compiled from schema versions, and verdicts.
Not here: publishing (`tables/`)."""
