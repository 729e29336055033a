"""The publishing step: what passed its checks to one Delta commit a table and interval."""
