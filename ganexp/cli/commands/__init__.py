"""The commands of `ganexp` other than `train`: one file each, imported after the command line has been parsed."""
