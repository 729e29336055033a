"""Common cuts of a group: positions at which all of its tables can be read together. Not here: one source's
positions."""
