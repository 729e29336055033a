"""Common cuts of a group: positions at which all of its tables are read together. Not here: one source's positions."""
