"""From plain values to checked values to objects: the only package that knows all the others below it."""
