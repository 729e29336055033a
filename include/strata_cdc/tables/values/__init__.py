"""Values of one column type converted to another, a module for each kind of values.
Not here: which pairs of types are known (`schema/model/conversions.py`), whole rows (`tables/convert.py`)."""
