"""The definition of one table, its types and charsets: values, and rules that need no statement.
Not here: statements (`schema/ddl/`), versions over time (`schema/history/`)."""
