"""Bringing the mirrors of a source up to what is published."""
