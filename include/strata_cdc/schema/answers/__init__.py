"""What people and programs ask of the schema history, and what they are told: values, and their JSON.
Not here: printing them (`cli/`), single lookups (`schema/history/`)."""
