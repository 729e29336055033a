"""The history of a mirrored table: every version of every row, with the span in which it held.
Not here: the view's SQL (`dialects/history.py`), opening it (`strata_cdc.mirrors.history`)."""
