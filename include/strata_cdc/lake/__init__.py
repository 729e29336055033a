"""A lake and the store of a source belong together; what was lost of a lake is detected, and rebuilt.
Not here: the lake's files (`files/`), its tables (`tables/`)."""
