"""What measures strategies: races, counted costs, the plain loops beside them, and traces of what they do."""
