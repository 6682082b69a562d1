"""From plain values to checked values to objects: the only room that knows every other one below it."""
