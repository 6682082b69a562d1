"""Measurements of strategies, and Markdown tables, that claims, the bench, the tables and figures share."""
