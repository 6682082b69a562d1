"""The measures, each in a file of its own; `conf/measure/` has a name and the settings of each."""
