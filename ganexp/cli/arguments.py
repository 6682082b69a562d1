"""The arguments of the commands of `ganexp`. Torch is not imported here, so that mistakes and `--help` are answered at once."""

import argparse
import inspect
import math
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ganexp.cli.ready import READY
from ganexp.config.defaults import option_files
from ganexp.facts import UserError
from ganexp.printable import printable

TASKS = {
    "grid": "draw a grid of samples, with a row for each class if there are few; --n is rounded up to full columns",
    "images": "write samples to files",
    "film": "walk from sample to sample through latent space",
    "neighbours": "draw samples beside the training images that are nearest to them",
    "latents": "write what an autoencoder makes of the images of its run, for dataset=latents",
    "export": "write the network as TorchScript, torch.export or ONNX, checked against the generator",
    "save": "write a folder to give away: weights as safetensors, settings as JSON, a model card",
}
"""What `ganexp sample` does, by the name of the function that does it."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Adds an option's default to its help; one of None is what the help itself says."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        without = not action.option_strings or action.nargs == 0 or action.default in (None, [], argparse.SUPPRESS)
        return text if without else f"{text}; {action.default} by default"


class CommandParser(ArgumentParser):
    """Says in one sentence what is wrong with a command line, without the twenty lines of its usage."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        said = re.sub(r"^argument (\S+): should", r"\1 should", message)
        said = re.sub(
            r"^the following arguments are required: (run|places)$", r"\1 is missing: name it before the options", said
        )
        self.exit(2, f"Error: {printable(said.rstrip('.'))}. {self.prog} --help lists the options.\n")


def parser() -> CommandParser:
    """Return the parser of `ganexp`, with a subparser for each command, described by the docstring of its function."""
    ganexp = CommandParser(prog="ganexp", description="Train GANs, and look at what they have learnt.")
    ganexp.add_argument("--version", action="store_true", help="print the versions of ganexp, torch and Python")
    commands = ganexp.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("train", help="Train, or sweep with -m: the same as python train.py; it has a help of its own")
    for describe in DESCRIBED:
        text = inspect.getdoc(describe) or ""
        own = commands.add_parser(
            describe.__name__,
            help=text.partition("\n")[0].rstrip("."),  # empty with python -OO
            description=text,
            formatter_class=Formatter,
        )
        describe(own)
    return ganexp


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. What stands behind `--` is for the script of `watch`; argparse would take it for ours.

    Raises:
        UserError: It has words that no option takes.
    """
    end = [*words].index("--") if words[0] == "watch" and "--" in words else len(words)
    options, unknown = parser().parse_known_args(words[:end])
    if unknown:
        named = f"ganexp {options.command}"
        remedy = "put what is for the script behind --" if options.command == "watch" else f"{named} --help lists its options"
        if options.command == "features" and all("=" in one and not one.startswith("-") for one in unknown):
            remedy = "settings stand before options"
        raise UserError(f"{named} does not take {' '.join(unknown)}: {remedy}")
    options.words = words[end + 1 :]
    return options


def evaluate(parser: ArgumentParser) -> None:
    """Evaluate runs, checkpoints and sweeps against their data, or a folder of images against any data set.

        ganexp evaluate run=outputs/latest                              # as the run itself measures
        ganexp evaluate run=outputs/latest --weights best --measure fid kid --samples 50000
        ganexp evaluate outputs/2026-11-21_08-00-00_multirun --features inception
        ganexp evaluate path/to/images --dataset mnist --set dataset.image_size=28
        ganexp evaluate path/to/images --against path/to/targets --measure psnr ssim    # pairs of images with equal names
        torchrun --nproc_per_node=8 -m ganexp evaluate run=outputs/latest --device cuda    # each draws its share of the samples

    It prints a table, and writes evaluation.json and evaluation.html, a page that needs no other file, with samples beside the
    training images nearest to them. With the same settings and on the same device, the figures equal those in the run's last
    row. Several runs are ranked by the first measure, the best first, if their data, features and number of samples are the
    same; runs of a sweep are ranked by its sweep.metric, and those that differ only in the seed by their mean.
    """
    parser.add_argument(
        "places", nargs="+", type=_place, help="runs, checkpoints, sweeps, or with --dataset or --against folders of images"
    )
    parser.add_argument("--weights", choices=["last", "best"], default="last", help="which checkpoint of a run")
    measured = parser.add_argument_group("how, as keys below evaluation; by default as the run says")
    names = ", ".join(option_files("measure"))
    measured.add_argument(
        "--measure",
        action="extend",
        nargs="+",
        metavar="NAME",
        help=f"{names}; and settings, as in kid.subsets=50; the run's own by default",
    )
    measured.add_argument(
        "--config-dir", type=Path, help="YAML files of your own, as for training, with further measures; none by default"
    )
    protocols = ", ".join(option_files("evaluation.protocol"))
    measured.add_argument(
        "--protocol",
        metavar="NAME",
        help=f"how a publication evaluates, where nothing else is said: {protocols}; none by default",
    )
    measured.add_argument(
        "--against",
        type=_against,
        metavar="{train,test,FOLDER}",
        help="the real samples that they are compared with, the run's own choice by default; or for folders of images a folder "
        "of what each image should be, under the same name",
    )
    measured.add_argument(
        "--features",
        action="extend",
        nargs="+",
        help="such as classifier, inception, dinov2_vitb14; a file is code and runs; the run's own by default",
    )
    measured.add_argument("--feature-weights", help="the folder with weights of DINOv2 and CLIP; the run's own by default")
    measured.add_argument("--samples", type=int, help="how many; the run's own number, and all of a folder, by default")
    measured.add_argument("--of", choices=["average", "generator"], help="whose samples; the run's own choice by default")
    measured.add_argument(
        "--standing",
        type=int,
        metavar="N",
        help="recompute batch norm's statistics from N batches first (standing statistics); the run's own number by default",
    )
    images = parser.add_argument_group("folders of images")
    images.add_argument("--dataset", help="what they are compared with, such as mnist; without it, the places are runs")
    images.add_argument(
        "--set",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        help="its settings, as in dataset.image_size=64; its own by default",
    )
    parser.add_argument(
        "--decode",
        help="decoder for runs on latents: a run, or a .pt2 file, which is code that is run; the run's own by default",
    )
    parser.add_argument(
        "--nearest", choices=["features", "pixels"], help="where distances to training images are measured; features by default"
    )
    parser.add_argument("--device", help="cpu, cuda or cuda:N; the run's own by default")
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="the folder of the results; by default evaluation in the first run or sweep, or beside a lone checkpoint",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")


def sample(parser: ArgumentParser) -> None:
    """Draw samples from a trained generator, as a grid, as files or as a film, or export it.

        ganexp sample digits                                            # of a small generator, trained once on first use
        ganexp sample outputs/latest                                    # a grid of 64
        ganexp sample outputs/latest --enlarge 4                        # the same, four times as large
        ganexp sample outputs/latest --images --n 1000 --seed 1         # PNG files; run again, it continues where it ended
        ganexp sample outputs/latest --images --n 50000 --format npz    # or tar, in shards
        torchrun --nproc_per_node=8 -m -- ganexp sample outputs/latest --images --n 50000 --device cuda
        ganexp sample outputs/latest --method rejection --percentile 80  # by what the discriminator takes for real
        ganexp sample outputs/latest --film --tiles 16 --truncation 1
        ganexp sample outputs/latest --neighbours --n 8                 # beside the training images nearest to them
        ganexp sample outputs/autoencoder --latents --output latents.safetensors
        ganexp sample outputs/latest --export --form onnx               # or torchscript, torch_export
        ganexp sample outputs/latest --save --output shared/digits      # weights, settings and a model card
        ganexp sample hf://owner/name --output samples.png              # from the Hugging Face Hub

    A run is a run folder, a checkpoint or a saved generator; digits and mnist are generators to play with, trained in one to
    three minutes, kept in the cache folder, and shown four times as large. Of a translator, a grid shows held-out sources, what
    it makes of them, and targets; ganexp translate gives it images of your own. The same seed and index give the same sample,
    however many are drawn. Results are written to generated/ beside the run unless --output names a place; existing files are
    replaced only with --overwrite.
    """
    parser.add_argument(
        "run",
        type=_generator,
        help="a run folder, a checkpoint, a saved generator, hf://owner/name, digits or mnist; run=… is the same",
    )
    tasks = parser.add_mutually_exclusive_group()
    for task, said in TASKS.items():
        tasks.add_argument(f"--{task}", dest="task", action="store_const", const=task, default="grid", help=said)
    which = parser.add_argument_group("which samples")
    which.add_argument(
        "--n",
        type=_positive,
        help="how many; by default 64 in a grid, or 8 of each class, 1000 as files, 4 per tile of a film, 8 neighbours",
    )
    which.add_argument("--seed", type=_integer, default=0, help="of the latents")
    which.add_argument("--first", type=_integer, default=0, help="index of the first one")
    which.add_argument(
        "--indices", type=_integer, action="extend", nargs="+", help="these, instead of --n and --first; none by default"
    )
    which.add_argument("--label", help="the class of all, by number or name; classes take turns by default")
    which.add_argument(
        "--truncation", type=_finite, help="bound of latents, or ψ of StyleGAN2: more typical samples; none by default"
    )
    which.add_argument(
        "--plain-weights", action="store_true", help="weights as trained; their average by default, if the run has one"
    )
    which.add_argument(
        "--standing",
        type=_positive,
        default=0,
        metavar="N",
        help="recompute batch norm's statistics from N batches first (standing statistics), or 0 to keep those of training",
    )
    guided = parser.add_argument_group("by the discriminator")
    guided.add_argument(
        "--method", choices=["rejection", "langevin"], help="choose latents by D's scores; by default all are taken as drawn"
    )
    guided.add_argument("--percentile", type=_finite, help="for rejection: a value such as 80 accepts more; exact by default")
    guided.add_argument("--steps", type=_positive, default=100, help="for langevin: number of steps")
    guided.add_argument("--step-size", type=_rate, default=0.01, help="for langevin: size of a step")
    parser.add_argument("--with-discriminator", action="store_true", help="--save the discriminator too")
    parser.add_argument(
        "--form", choices=["torchscript", "torch_export", "onnx"], default="torch_export", help="what --export writes"
    )
    parser.add_argument("--direction", choices=["a_to_b", "b_to_a"], help="of an export of generator=two_way; both by default")
    files = parser.add_argument_group("images")
    files.add_argument(
        "--format", choices=["png", "npz", "tar"], default="png", help="files of one image, one array, or shards"
    )
    files.add_argument("--shard-size", type=_positive, default=10_000, help="samples in a tar file")
    films = parser.add_argument_group("film")
    films.add_argument("--movie", choices=["gif", "mp4"], default="gif", help="the kind of file")
    films.add_argument("--way", choices=["spherical", "linear"], default="spherical", help="how latents are interpolated")
    films.add_argument("--frames", type=_positive, default=16, help="from one sample to the next")
    films.add_argument("--tiles", type=_positive, default=16, help="walks beside each other")
    films.add_argument("--per-second", type=_positive, default=20, help="frames in a second")
    films.add_argument("--open", action="store_true", help="end at the last sample; where it began by default")
    parser.add_argument(
        "--decode",
        help="decoder for a generator of latents: a run, or a .pt2 file, which is code that is run; its own by default",
    )
    parser.add_argument(
        "--enlarge",
        type=_positive,
        help="pixels along the side of each pixel of a grid or a film, for small images; by default 1, or 4 for digits and "
        "other names",
    )
    parser.add_argument("--nearest", type=_positive, default=7, help="neighbours of each sample")
    parser.add_argument("--batch-size", type=_positive, default=256, help="samples that are drawn at once")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )
    parser.add_argument("--output", type=Path, help="the file or folder of the result; in generated/ beside the run by default")
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")


def translate(parser: ArgumentParser) -> None:
    """Translate every image in a folder, and write what becomes of each under its name.

        ganexp translate outputs/latest path/to/edges --output translated
        ganexp translate outputs/latest horses --output zebras                        # of two directions, from set A to set B
        ganexp translate outputs/latest zebras --output horses --direction b_to_a
        ganexp translate outputs/latest photos --output painted --size 256            # resized and cropped, as in training
        ganexp translate outputs/latest facades/test --output made --half right       # of pictures that hold both halves

    The run's data gave its generator sources, and the images are such sources: edges for a run that has learnt from edges,
    small images for one that makes them larger. They are read as dataset=image_folder reads images (colour or grey as in
    training, 16 bits or floats with the black and white of training, transparency over white, turned as EXIF says), in a folder
    or zip archive, at any depth, and stay in their own size. U-Nets take sides that 2^depth divides, resnet_translator those
    that 4 divides: other images are padded at the right and bottom, and the results cropped. The result of a/b.jpg is a/b.png.
    Images without a result are named with the reason, and the command then ends with 1.
    """
    parser.add_argument(
        "run",
        type=_place_or_repository,
        help="a run folder, a checkpoint, a saved generator or hf://owner/name; run=… is the same",
    )
    parser.add_argument("folder", type=Path, help="a folder or zip archive of images")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--direction", choices=["a_to_b", "b_to_a"], help="of generator=two_way; a_to_b by default")
    parser.add_argument(
        "--size",
        type=_positive,
        action="extend",
        nargs="+",
        help="side, or height and width, that images are resized and cropped to; their own by default",
    )
    parser.add_argument(
        "--half", choices=["left", "right"], help="the half of each image that is the source; the whole by default"
    )
    parser.add_argument(
        "--range",
        type=_finite,
        nargs=2,
        metavar=("BLACK", "WHITE"),
        help="of images of more than eight bits; by default those of the run's sources, or else found over all images",
    )
    parser.add_argument("--label", help="the class of all, by number or name, which a conditional translator needs")
    parser.add_argument(
        "--plain-weights", action="store_true", help="weights as trained; their average by default, if the run has one"
    )
    parser.add_argument("--batch-size", type=_positive, default=16, help="images of one size that are translated at once")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )
    parser.add_argument("--overwrite", action="store_true", help="write into a folder that holds something already")


def push(parser: ArgumentParser) -> None:
    """Publish a trained generator on the Hugging Face Hub: weights as safetensors, settings, samples and a model card.

        ganexp push outputs/latest owner/name --license mit
        ganexp push outputs/latest owner/name --private

    It needs pip install "ganexp[hub]" and a login (hf auth login, or HF_TOKEN). The repository is created if it does not
    exist; a second push adds a commit. ganexp.load("hf://owner/name") and ganexp sample hf://owner/name load it from there.
    Paths and other details of your machine are not published: ganexp sample RUN --save shows what would be published.
    """
    parser.add_argument("run", type=_place, help="a run folder, a checkpoint or a saved generator; run=… is the same")
    parser.add_argument("repo", help="owner/name")
    parser.add_argument(
        "--license", help="as the hub calls it, such as mit or cc-by-4.0; none by default; that of the data may restrict it"
    )
    parser.add_argument(
        "--private", action="store_true", help="a new repository is seen by its owner alone; by everybody by default"
    )
    parser.add_argument("--message", default="Add a generator", help="what the commit says")
    parser.add_argument("--with-discriminator", action="store_true", help="publish it too, for ganexp.load_discriminator")
    parser.add_argument(
        "--plain-weights", action="store_true", help="weights as trained; their average by default, if the run has one"
    )
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )


def average(parser: ArgumentParser) -> None:
    """Make power-function averages of any width from the checkpoints of a run with average=power (Karras et al. 2024, EDM2).

        ganexp average outputs/latest --width 0.05 0.07 0.15
        ganexp evaluate outputs/latest/averages/*.pt                    # which width is best?
        ganexp average outputs/latest --width 0.05 --iteration 2000

    Each average is a file in averages/ of the run, which ganexp sample, ganexp evaluate and ganexp.load accept. The more
    checkpoints there are, each with averages of two widths, the closer it is to the exact average: train with average=power
    average.beside=[0.05] and a keep_checkpoints that keeps all of them. The command prints how close it is.
    """
    parser.add_argument("run", type=_place, help="a run folder; run=… is the same")
    parser.add_argument(
        "--width", type=float, action="extend", nargs="+", required=True, help="relative standard deviations, below 0.28"
    )
    parser.add_argument("--iteration", type=_positive, help="the end of the average; the last checkpoint's by default")
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is there")


def report(parser: ArgumentParser) -> None:
    """Write one self-contained HTML page about runs: samples over time, what differs, curves, timings.

        ganexp report outputs/2026-11-21_08-00-00_multirun
        ganexp report outputs/2026-11-21_08-00-00_multirun --metric began/convergence  # else by its sweep.metric
        ganexp report outputs/2026-11-21_08-00-00_digits_hinge_joint_seed0 outputs/latest --output comparison.html

    Each folder is that of a run or a sweep. Runs that differ only in the seed are averaged, with a band from the lowest to the
    highest; it makes no difference if one of them was resumed, ran longer or wrote elsewhere. --metric ranks these averages.
    Broken, failed and unfinished runs are shown as such, with whatever can be read of them.
    """
    parser.add_argument("folders", nargs="+", type=Path, help="folders of runs or sweeps")
    parser.add_argument("--output", type=Path, help="the page; report.html in the first folder by default")
    parser.add_argument("--metric", help="a key of the rows to rank by, such as eval/fid; a sweep's sweep.metric by default")
    parser.add_argument(
        "--direction",
        choices=("auto", "minimize", "maximize"),
        default="auto",
        help="which of its values are best; auto is what the sweep was told or the key declares, else minimize",
    )


def dynamics(parser: ArgumentParser) -> None:
    """Write a page about a run's game: eigenvalues of its Jacobian over time, and how each update rule would behave there.

        ganexp dynamics outputs/latest                                  # of a run with dynamics.every=…, or at its checkpoints
        ganexp dynamics outputs/latest --rules joint detach extragradient --rate 0.01

    Rows of a run that was trained with dynamics.every are used as they are; for other runs, the checkpoints that they have kept
    are examined, and keep_checkpoints=… keeps more of them.
    """
    parser.add_argument("run", type=_place, help="a run folder; run=… is the same")
    parser.add_argument("--rules", action="extend", nargs="*", default=[], help="strategies to compare; all of them by default")
    parser.add_argument("--rate", type=_rate, help="learning rate; one over the largest eigenvalue by default")
    parser.add_argument(
        "--path", action="store_true", help="also look at every checkpoint, even if the rows have the spectrum already"
    )
    parser.add_argument(
        "--trust",
        action="extend",
        nargs="*",
        default=[],
        help="modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    )
    parser.add_argument("--output", type=Path, help="the page; dynamics.html in the run's folder by default")


def features(parser: ArgumentParser) -> None:
    """Train the classifier whose features are used to compare samples of a labelled data set: evaluation.features=classifier.

    It takes minutes on a CPU, and prints the accuracy on images that were held out.
    """
    parser.add_argument("dataset", help="a labelled data set, such as mnist")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="settings as for training, such as data_root=/path dataset.image_size=64"
    )
    parser.add_argument(
        "--epochs", type=_positive, help="passes through the data; by default enough to look at 45,000 to 180,000 images"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or cuda:N; auto is a GPU if there is one")


def compare(parser: ArgumentParser) -> None:
    """Compare update strategies on this machine: time, phases, operations and memory, side by side.

        ganexp compare --strategies detach joint one_stage --losses nonsaturating hinge
        ganexp compare --repeats 9 --overrides generator.width=64 batch_size=32 dataset.image_size=64

    All rows run in turn, many times over, so that drift hits all alike. A ratio is taken within each turn, against `detach`
    with redundant gradients, and the table shows its median and 95 % confidence interval. With loss=nonsaturating, two rows
    are plain PyTorch loops of `detach`, with and without redundant gradients: what the framework costs is the ratio to them.
    Writes table.md, table.csv and plots below outputs/.
    """
    strategies = [*option_files("strategy")]
    parser.add_argument(
        "--strategies",
        action="extend",
        nargs="+",
        choices=strategies,
        metavar="NAME",
        help=f"{', '.join(strategies)}; all of them by default",
    )
    parser.add_argument("--losses", action="extend", nargs="+", help="names of losses to time; nonsaturating by default")
    parser.add_argument(
        "--overrides", action="extend", nargs="*", help="configuration of every run; that of a DCGAN of 64×64 by default"
    )
    parser.add_argument("--repeats", type=_positive, default=7, help="how often each row is timed")
    parser.add_argument("--iterations", type=_positive, default=3, help="iterations per repeat")
    parser.add_argument("--output", type=Path, help="folder of the results; a new one below outputs/ by default")


def watch(parser: ArgumentParser) -> None:
    """Watch the first iterations of somebody's training script, and say which update rule it follows and what is wrong.

        ganexp watch train.py
        ganexp watch train.py --iterations 5 --picture graphs.png -- --batch-size 64    # arguments of that script behind --
        ganexp watch train.py --json > report.json

    The script runs unchanged, as its own main program, and is stopped after these iterations. The report names the strategy
    that makes its updates, checks that where it can, and lists what each pass costs and each fault, with its remedy.
    What the script prints goes to stderr. From Python, the same is `with ganexp.watch() as seen:`.
    """
    parser.add_argument("script", type=Path, help="a Python file that trains a GAN with torch")
    parser.add_argument("--iterations", type=_positive, default=3, help="iterations to watch, in which both players move")
    parser.add_argument("--json", action="store_true", help="print the report as JSON; as text by default")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the life of each graph; none by default")


def dashboard(parser: ArgumentParser) -> None:
    """Build the W&B workspace for a project's runs: every measurement against iterations, real images and wall time.

        ganexp dashboard --entity my-team --project ganexp
        ganexp dashboard --entity my-team --sweeps 2026-11-21_08-00-00_multirun   # fixes its colours

    Runs are grouped by sweep, then strategy, then loss. Each strategy has a colour, each loss a shade of it. Run it again to
    get another saved view; existing views are not changed. --print shows what would be saved, and needs no account.
    """
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


def _against(typed: str) -> Path | str:
    return typed if typed in ("train", "test") else Path(typed)


def _place(typed: str) -> Path:
    return Path(typed.removeprefix("run="))


def _place_or_repository(typed: str) -> Path | str:
    name = typed.removeprefix("run=")
    return name if name.startswith("hf://") else Path(name)


def _generator(typed: str) -> Path | str:
    return typed if typed in READY and not Path(typed).exists() else _place_or_repository(typed)


def _positive(typed: str) -> int:
    if (number := _integer(typed)) < 1:
        raise argparse.ArgumentTypeError(f"should be a number of at least 1, not {typed}")
    return number


def _integer(typed: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", typed):
        raise argparse.ArgumentTypeError(f"should be an integer of at most 18 digits, not {typed}")
    return int(typed)


def _finite(typed: str) -> float:
    try:
        number = float(typed)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"should be a finite number, not {typed}")
    return number


def _rate(typed: str) -> float:
    if (rate := _finite(typed)) <= 0:
        raise argparse.ArgumentTypeError(f"should be a number above 0, not {typed}")
    return rate


DESCRIBED = (evaluate, sample, translate, push, average, report, dynamics, features, compare, watch, dashboard)
COMMANDS = ("train", *(one.__name__ for one in DESCRIBED))
"""The commands of `ganexp`, in the order of its help."""
