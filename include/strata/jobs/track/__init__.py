"""The tracking step: landed DDL to schema versions; and reading a live server's schema."""
