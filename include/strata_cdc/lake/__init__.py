"""A lake and the store of a source know each other; what was lost of a lake is noticed, and made anew.
Not here: the lake's files (`files/`), its tables (`tables/`)."""
