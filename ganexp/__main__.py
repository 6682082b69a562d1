"""`python -m ganexp` is `ganexp`, and so is `torchrun … -m ganexp` in each process."""

from ganexp.cli.main import main

if __name__ == "__main__":
    main()
