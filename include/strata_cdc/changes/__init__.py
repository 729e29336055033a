"""Row images and a schema version in, Arrow columns out.
Not here: files of the lake (`tables/`), what a version is (`schema/`)."""
