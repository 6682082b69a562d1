"""The measures, one family per file; `conf/measure/` has a name and the settings of each."""
