"""The model card of a generator in Markdown: its description, training and use."""

from collections.abc import Mapping
from typing import Any

from ganexp.printable import printable
from ganexp.sampling.trained import Trained

GROUPS = ("dataset", "generator", "discriminator", "loss", "term", "penalty", "strategy", "wrapper", "optimizer", "average")
SETTINGS = ("batch_size", "d_steps", "g_steps", "latent_dim", "prior", "precision", "seed")
OF_LATENTS = ("latent_dim", "prior")
"""Settings that a translator, which is given sources, does not have."""

MOST_NAMES = 100
"""How many classes a card names, at most."""

TO_CHOOSE = "license:  # choose one, such as mit, before you publish this"
COMPARED = "Figures of `eval/` compare only with others in the same features; published ones are in those of Inception."
UNDECIDED = "To be chosen by whoever publishes it; that of the data may restrict the choice."


def card(
    trained: Trained,
    picture: str | None = None,
    *,
    discriminator: bool = False,
    place: str | None = None,
    licence: str | None = None,
) -> str:
    """Return a card as Markdown, with the front matter that model hubs read; whoever publishes it chooses a licence.

    Args:
        trained: The generator.
        picture: The file of its samples beside the card, if there is one.
        discriminator: Whether the discriminator of the run lies beside the generator.
        place: What `ganexp.load` is given; without it, a folder that is yet to be named.
        licence: The licence, as model hubs call it.
    """
    settings, origin = trained.origin.settings, trained.origin
    chosen_parts = parts(settings)
    chosen = {key: settings[key] for key in SETTINGS if key in settings and not (trained.source_shape and key in OF_LATENTS)}
    more = ", …" if len(origin.class_names) > MOST_NAMES else ""
    named = {"classes": ", ".join(origin.class_names[:MOST_NAMES]) + more} if origin.class_names else {}
    which = {"weights": origin.weights} if origin.weights else {}
    given = "×".join(map(str, trained.source_shape))
    of = f"translator from sources of {given} to images" if given else "generator of samples"
    kind = f"A class-conditional ({trained.classes} classes)" if trained.classes else "A" if given else "An unconditional"
    title = "A translator" if given else "A GAN's generator"
    size = "×".join(map(str, trained.shape))
    count = sum(parameter.numel() for parameter in trained.network.parameters())
    call = "G.sample(16, seed=0, label=0)" if trained.classes else "G.sample(16, seed=0)"
    if trained.source_shape:
        labels, sides = ", labels" * bool(trained.classes), ", ".join(map(str, trained.source_shape))
        call = f"G(sources{labels})  # (B, {sides}), in [-1, 1]"
    where = printable(place or "path/to/this/folder")
    lines = [
        "---",
        *([f"license: {printable(licence)}"] if licence else [] if place else [TO_CHOOSE]),
        "library_name: ganexp",
        "tags: [gan, pytorch]",
        "---",
        "",
        f"# {title}, trained on {chosen_parts.get('dataset', 'data of its own')}",
        "",
        f"{kind} {of} of {size}, with {count:,} parameters, trained",
        f"for {origin.iterations:,} iterations by ganexp.",
        "",
        *([f"![{'Sources, outputs and targets' if given else 'Samples'}]({picture})", ""] if picture else []),
        "```python",
        "import ganexp",
        "",
        f'G = ganexp.load("{where}")',
        f"samples = {call}",
        *([f'D = ganexp.load_discriminator("{where}")'] if discriminator else []),
        "```",
        "",
        "## Training",
        "",
        *_table("setting", {**chosen_parts, **chosen, **named, **which}),
        "",
        f"Everything else is in `generator.json`. Last figures, at iteration {origin.iterations:,}:",
        "",
        *([COMPARED, ""] if any(key.startswith("eval/") for key in origin.figures) else []),
        *_table("figure", {key: f"{value:.5g}" for key, value in sorted(origin.figures.items()) if _describes_generator(key)}),
        "",
        "## Licence",
        "",
        f"{printable(licence)}." if licence else UNDECIDED,
        "",
    ]
    return "\n".join(lines)


def parts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the parts that tell most of a training, by group; of several members, a list."""
    nodes = ((group, settings.get(group)) for group in GROUPS)
    return {group: _name(node) for group, node in nodes if node and isinstance(node, dict)}


def _name(node: dict[str, Any]) -> str:
    """Return what a member of a group is called; if there are several, a list of their names."""
    return printable(node.get("name", node.get("_target_", ", ".join(map(str, node)))))


def _describes_generator(key: str) -> bool:
    """Return whether a figure describes the generator, and not the machine that it was trained on."""
    return key.startswith(("eval/", "loss/", "score/")) or key == "progress/real_images"


def _table(heading: str, values: dict[str, Any]) -> list[str]:
    rows = [f"| {key} | {printable(value).replace('|', '/')} |" for key, value in values.items()]
    return [f"| {heading} | value |", "| --- | --- |", *rows]
