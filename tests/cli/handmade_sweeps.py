"""Folders of sweeps, written by hand: which figure each job reached, or what became of it instead; and small real ones."""

import json

from ganexp.cli.sweeping import Sweep

TINY = ["generator.width=4", "discriminator.width=4", "iterations=2", "log_every=1", "dataset.image_size=16", "device=cpu"]


def sweep_folder(cwd):
    (folder,) = cwd.glob("outputs/*_multirun")
    return folder


def make_sweep(folder, combinations, metric="eval/fid", direction="auto", measures=None, datasets=None):
    """Write a sweep: by combination, such as `loss=hinge`, what each seed reached.

    A job is a number, its figure, or what became of it: `failed`, `skipped`, `missing` or `stale`, which has no figure in its
    last row. `measures` and `datasets` are by combination, and stand in the runs' own files.
    """
    jobs, figures = [], []
    for combination, reached in combinations.items():
        for seed, figure in enumerate(reached):
            jobs.append((*combination.split(), f"seed={seed}"))
            figures.append((combination, seed, figure))
    keys = dict.fromkeys(override.partition("=")[0] for job in jobs for override in job)
    Sweep(("a",), tuple(keys), tuple(jobs), metric, direction=direction).save(folder)
    for number, (combination, seed, figure) in enumerate(figures):
        if figure == "missing":
            continue
        run = folder / f"{number}_run"
        run.mkdir()
        state = figure if figure in ("failed", "skipped") else "finished"
        told = {"error": f"{state} as planned"} if state != "finished" else {}
        (run / "summary.json").write_text(json.dumps({"state": state, "overrides": jobs[number], "wall_s": 1.0, **told}))
        if state == "skipped":
            continue
        options = {one.partition("=")[0]: {"name": one.partition("=")[2]} for one in combination.split()}
        config = {"seed": seed, "dataset": (datasets or {}).get(combination, {"name": "ring"}), **options}
        (run / "config.json").write_text(json.dumps(config))
        own = {"meaning": "a figure", "best": "lowest"} | ((measures or {}).get(combination) or {})
        (run / "measures.json").write_text(json.dumps({metric: own}))
        rows = [{"progress/iteration": 1, metric: 99.0}, {"progress/iteration": 2, metric: figure}]
        if not isinstance(figure, float):
            rows[-1].pop(metric)
        (run / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder
