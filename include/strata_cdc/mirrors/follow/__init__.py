"""Updates the mirrors of a source to what is published."""
