"""Versions along a source's stream: stored, and looked up by position.
Not here: deriving them from the stream (`schema/tracker/`)."""
