"""What a browser and other programs ask over HTTP: the schema history as pages and as JSON, read only.
Not here: the answers (`schema/answers/`), who may ask (the plugin, or `strata serve`)."""
