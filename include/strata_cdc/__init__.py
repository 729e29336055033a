"""Strata decodes MySQL binlogs with the schema that was true at each GTID."""
