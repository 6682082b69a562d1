"""Compose a configuration, build a run from it, and train: `python train.py --help` lists the choices."""

from ganexp.cli.train import main

if __name__ == "__main__":
    main()
