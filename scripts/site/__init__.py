"""The documentation as a site: what of it stands elsewhere in the repository, and what is made from the code.
Not here: the pages (`docs/`), their order and looks (`mkdocs.yml`)."""
