"""What set-up makes so that commands and jobs start sooner; its other half is `strata_cdc.startup` (decision 20)."""
