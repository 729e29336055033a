"""Decodes row images with a schema version to Arrow columns.
Not here: files of the lake (`tables/`), what a version is (`schema/`)."""
