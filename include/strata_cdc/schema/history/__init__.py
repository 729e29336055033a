"""Versions along a source's stream: kept, and asked for by position.
Not here: finding them in the stream (`schema/tracker/`)."""
