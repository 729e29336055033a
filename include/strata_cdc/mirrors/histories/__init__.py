"""The history of a mirrored table: every version of every row, with the time range in which it was valid.
Not here: the view's SQL (`dialects/history.py`), opening it (`strata_cdc.mirrors.history`)."""
