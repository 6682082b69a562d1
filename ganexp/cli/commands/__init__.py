"""The commands of `ganexp` but for `train`: one file each, which is imported once its arguments are understood."""
