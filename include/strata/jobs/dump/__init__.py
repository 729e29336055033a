"""Dumping tables of a source into mirrors."""
