"""Build the W&B workspace for a project's runs: every measurement against iterations, real images and wall time.

    ganexp dashboard --entity my-team --project ganexp
    ganexp dashboard --entity my-team --sweeps 2026-11-21_08-00-00_multirun   # fixes its colours

Runs are grouped by sweep, then strategy, then loss. Each strategy has a colour, each loss a shade of it. Run it again to
get another saved view; existing views are not changed. --print shows what would be saved, and needs no account.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--entity", required=True, help="the user or team that owns the project")
    parser.add_argument("--project", default="ganexp", help="the project whose runs are shown")
    parser.add_argument("--name", default="ganexp", help="what the saved view is called")
    parser.add_argument(
        "--sweeps",
        action="extend",
        nargs="*",
        default=[],
        help="names of sweeps, for colours by strategy and loss; none by default",
    )
    parser.add_argument(
        "--config-dir", type=Path, action="append", default=[], help="YAML files of your own, as for training; none by default"
    )
    parser.add_argument("--print", action="store_true", help="print the view instead of saving it")


def refuse(options: Namespace) -> None:
    """Refuse to begin without its package."""
    shared.refuse_without("wandb_workspaces", "dashboard")
