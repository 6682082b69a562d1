"""Published experiments at their own settings; the parts of scripts/packing.py."""
