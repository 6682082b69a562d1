"""The parts of an evaluation's table, JSON file and page."""
