"""What measures strategies: races, counted costs, plain loops to compare with, and traces of what they do."""
