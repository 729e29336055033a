"""A table that gets a column of each type behind its rows: with a default, or NOT NULL without one."""

from __future__ import annotations

_COLUMNS = (
    "TIME NOT NULL", "TIME DEFAULT '-10:00:01.5'", "BIT(1) NOT NULL DEFAULT b'1'", "BIT(9)", "BIT(12) NOT NULL",
    "DATE NOT NULL", "DATE NOT NULL DEFAULT '2024-01-01'", "DATETIME(3) NOT NULL", "BINARY(4) NOT NULL",
    "YEAR NOT NULL", "BINARY(4) DEFAULT 'ab'", "VARBINARY(4) NOT NULL DEFAULT 0x00ff", "BLOB NOT NULL",
    "JSON NOT NULL", "TEXT NOT NULL", "DECIMAL(45, 10)", "DECIMAL(45, 10) NOT NULL",
    "DECIMAL(45, 10) NOT NULL DEFAULT 1.5", "FLOAT NOT NULL DEFAULT 0.1", "ENUM('first', 'b') NOT NULL",
    "SET('x', 'y') NOT NULL DEFAULT 'x,y'", "VARCHAR(20) DEFAULT 'a\\\\b\\'c\\nd'",
    "BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615", "DOUBLE DEFAULT 1.5e200", "CHAR(3) NOT NULL",
)  # fmt: skip

ADDED = (
    "CREATE TABLE added (id INT NOT NULL DEFAULT 3 PRIMARY KEY)",
    "INSERT INTO added VALUES (1), (2)",
    "ALTER TABLE added " + ", ".join(f"ADD COLUMN c{at} {column}" for at, column in enumerate(_COLUMNS)),
)
"""Statements of a session whose `sql_mode` is empty."""
