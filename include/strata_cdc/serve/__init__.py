"""What a browser and other programs read over HTTP: the schema history as pages and as JSON, read only.
Not here: the answers (`schema/answers/`), access (the plugin, or `strata serve`)."""
