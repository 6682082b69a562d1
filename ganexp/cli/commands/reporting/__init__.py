"""The parts of the report: what is compared, and what is drawn."""
