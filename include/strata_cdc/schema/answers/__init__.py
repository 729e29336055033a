"""The answers of the schema history for people and programs: values, and their JSON.
Not here: printing them (`cli/`), single lookups (`schema/history/`)."""
