"""Published experiments, run again at their own settings: what scripts/packing.py is made of."""
