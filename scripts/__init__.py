"""What sets up, starts, stops and demonstrates Strata on one machine.
Not here: anything that the product itself needs (`include/strata_cdc`)."""
