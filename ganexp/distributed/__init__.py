"""One process or several: the group, joining it, and batch norm over the global batch."""
