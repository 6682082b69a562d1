"""The parts of the report: what is compared, what is drawn, and the page."""
