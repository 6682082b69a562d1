"""Run folders, written by hand, and what a report shows of them."""

import json

import numpy as np
from PIL import Image


def rich_run(folder, *, seed=0, strategy="joint", rows=20, level=1.0):
    (folder / "samples").mkdir(parents=True)
    config = {
        "seed": seed,
        "strategy": {"name": strategy, "_target_": "x.y"},
        "logger": {"wandb": {"name": folder.name}},
        "iterations": rows,
    }
    (folder / "config.json").write_text(json.dumps(config))
    lines = []
    for i in range(1, rows + 1):
        row = {"progress/iteration": i, "progress/real_images": 4 * i, "progress/wall_s": 0.5 * i}
        row |= {"loss/d": level / i, "loss/g": float("nan") if i == 3 else 2.0, "began/k_t": 0.1, "time/iteration_ms": 9.0}
        row |= {"time/d_ms": 5.0, "time/g_ms": 3.0, "time/data_ms": 1.0}
        if i % 10 == 0:
            picture = Image.fromarray(np.random.default_rng(i).integers(0, 255, (16, 16, 3), np.uint8))
            picture.save(folder / f"samples/{i}.png")
            row["samples"] = f"samples/{i}.png"
        lines.append(json.dumps(row))
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "summary.json").write_text(json.dumps({"state": "finished", "wall_s": 3.0}))
    (folder / "measures.json").write_text(json.dumps({"began/k_t": {"meaning": "a <control> variable", "summary": "last"}}))
    return folder


def plain_run(folder, config, values=(1.0, 2.0, 3.0), every=10, keys=("loss/d",), pictures=()):
    """Write a finished run with a row every so many iterations."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    rows = []
    for i, value in enumerate(values, 1):
        row = {"progress/iteration": i * every, "progress/real_images": 4 * i * every, "progress/wall_s": float(i)}
        row |= dict.fromkeys(keys, value) | {key: f"{key}.png" for key in pictures}
        rows.append(json.dumps(row))
    for key in pictures:
        Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(folder / f"{key}.png")
    (folder / "metrics.jsonl").write_text("\n".join(rows))
    (folder / "summary.json").write_text(json.dumps({"state": "finished"}))
    return folder


def config(seed=0, loss="hinge", strategy="detach", dataset="digits", **further):
    groups = {"dataset": {"name": dataset}, "loss": {"name": loss}, "strategy": {"name": strategy}}
    return {"seed": seed, "iterations": 30, "resume": None, "logger": {"wandb": {"name": None}}} | groups | further


def figures(page):
    """Return the data of the charts, as the page's script first draws it."""
    found = json.JSONDecoder().raw_decode(page[page.index("const figures = ") + len("const figures = ") :])[0]
    return {key: over_iterations(figure) for key, figure in found.items()}


def over_iterations(figure):
    """Return a chart with the x values of its traces."""
    for trace, x in zip(figure["data"], figure["axes"]["iterations"], strict=True):
        trace["x"] = x
    return figure
