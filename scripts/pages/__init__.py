"""The pages that scripts write: their tables, their style, and where and how their figures were measured."""
