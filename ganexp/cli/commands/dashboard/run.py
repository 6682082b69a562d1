"""`ganexp dashboard`: build the W&B workspace of a project."""

import argparse
import colorsys
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb_workspaces.expr as expr
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from ganexp.cli.options import options
from ganexp.config.defaults import conf_folder, option_files
from ganexp.config.metrics import measures_of
from ganexp.config.plugins import conf_folders
from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import KEYS, STEPS
from ganexp.logging.meanings import AXES

OF_EVERY_LOSS = {"Losses": ("loss/",), "Scores": ("score/",)}
OF_THE_MACHINE = {
    "Collapse and over-fitting": ("diversity/", "accuracy/"),
    "Dynamics": ("dynamics/",),
    "Gradients": ("grad_norm/",),
    "Learning rates": ("lr/",),
    "Timings by phase": ("time/",),
    "Throughput and memory": ("speed/", "memory/"),
}


def run(options: argparse.Namespace) -> None:
    """Save the workspace, or print it."""
    view = workspace(options.entity, options.project, options.name, options.sweeps, options.config_dir)
    if options.print:
        print(json.dumps(spec(view), indent=2))
        return
    try:
        view.save()
    except Exception as error:
        sys.exit(f"Error: W&B did not save the workspace ({error}); check --entity, --project and `wandb login`.")
    print(view.url)


def workspace(
    entity: str, project: str, name: str = "ganexp", sweeps: Sequence[str] = (), folders: Sequence[Path] = ()
) -> ws.Workspace:
    """Return the workspace, not yet saved; `folders` hold YAML files in addition to those in conf/."""
    searched = [conf_folder(), *conf_folders(), *folders]
    strategies, losses = sorted(option_files("strategy", searched)), options("loss", searched)
    measured = {one.name: measures_of(one.node) if "_target_" in one.node else {} for one in losses}  # a preset inherits it
    samples = [
        wr.MediaBrowser(title=key, media_keys=[key], mode="gallery", gallery_axis="step", num_columns=1)
        for key in ("samples", "real", "reconstructions")
    ]
    sections = [ws.Section(name="Samples", panels=samples, is_open=True, layout_settings=ws.SectionLayoutSettings(columns=2))]
    for title, keys in charted(measured).items():
        sections.append(_section(title, [_against(axis, key, [key]) for key in keys for axis in AXES], title == "Losses"))
    phases = [key for key in KEYS if key.startswith("time/")]
    timings = next(section for section in sections if section.name == "Timings by phase")
    timings.panels = [*(_against(axis, "all phases", phases) for axis in AXES), *timings.panels]
    evaluation = [
        wr.LinePlot(
            title=f"evaluation over {words} (comparable in equal features only, and with published figures only in theirs)",
            x=axis,
            metric_regex="^eval/.*",
            title_x=words,
        )
        for axis, words in AXES.items()
    ]
    sections.insert(1, _section("Evaluation", evaluation, is_open=True))
    return ws.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=sections,
        settings=ws.WorkspaceSettings(x_axis=STEPS[0], max_runs=50, remove_legends_from_panels=False),
        runset_settings=ws.RunsetSettings(
            groupby=[expr.Metric("Group"), expr.Config("strategy.name"), expr.Config("loss.name")],
            group_colors={
                ws.GroupPath(sweep, strategy, loss): color
                for sweep in sweeps
                for (strategy, loss), color in colors(strategies, list(measured)).items()
            },
            pinned_columns=[f"summary:{column}" for column in columns(measured)],
        ),
    )


def charted(measured: Mapping[str, Mapping[str, Scalar]]) -> dict[str, list[str]]:
    """Return the keys of each section, given what each loss measures."""
    of_losses = {f"loss={name}": list(measures) for name, measures in measured.items() if measures}
    return _keys_of(OF_EVERY_LOSS) | of_losses | _keys_of(OF_THE_MACHINE)


def columns(measured: Mapping[str, Mapping[str, Scalar]]) -> list[str]:
    """Return the columns of the table of runs: last losses, each loss's measures that are good when low, and the cost."""
    lowest = [f"{key}.min" for measures in measured.values() for key, measure in measures.items() if "min" in measure.summary]
    return ["loss/d", "loss/g", *lowest, "time/iteration_ms.mean", "memory/peak_mib.max"]


def colors(strategies: Sequence[str], losses: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return a hue for each strategy in a shade for each loss, as `#rrggbb`."""
    found = {}
    for (i, strategy), (j, loss) in itertools.product(enumerate(strategies), enumerate(losses)):
        parts = colorsys.hls_to_rgb(i / len(strategies), 0.3 + 0.4 * j / max(1, len(losses) - 1), 0.75)
        found[strategy, loss] = "#" + "".join(f"{round(255 * part):02x}" for part in parts)
    return found


def spec(made: ws.Workspace) -> dict[str, object]:
    """Return a workspace as W&B keeps it."""
    return made._to_model().model_dump(by_alias=True, exclude_none=True, mode="json")


def _keys_of(sections: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {title: [key for key in KEYS if key.startswith(prefixes)] for title, prefixes in sections.items()}


def _section(title: str, panels: list[wr.LinePlot], is_open: bool) -> ws.Section:
    layout = ws.SectionLayoutSettings(columns=len(AXES), rows=2)
    return ws.Section(name=title, panels=panels, is_open=is_open, layout_settings=layout)


def _against(axis: str, title: str, keys: Sequence[str]) -> wr.LinePlot:
    return wr.LinePlot(title=f"{title} over {AXES[axis]}", x=axis, y=list(keys), title_x=AXES[axis])
