"""Games in a trainer of one's own: each gives `ganexp.Game` its functions, and has its plain loop beside them."""
