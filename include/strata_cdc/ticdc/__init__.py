"""TiCDC's storage sink as a source of row-level changes: a folder of CSV or canal-json files that a TiDB cluster's
changefeed writes ([page](../../../docs/ticdc.md))."""
