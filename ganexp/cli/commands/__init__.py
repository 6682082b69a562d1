"""The commands of `ganexp` other than `train`: one file each, imported only once the command line has been parsed."""
