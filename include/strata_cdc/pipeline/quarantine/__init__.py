"""Rows that were withheld: looking at them, and deciding what becomes of them."""
