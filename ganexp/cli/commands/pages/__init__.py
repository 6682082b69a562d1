"""What pages are made of: their tables, their style, and where and how their figures were measured."""
