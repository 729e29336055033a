"""The documentation as a site: pages from elsewhere in the repository, and pages made from the code.
Not here: the pages (`docs/`), their order and style (`mkdocs.yml`)."""
