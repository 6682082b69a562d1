"""Measurements of strategies that claims, the bench, the tables and figures share."""
