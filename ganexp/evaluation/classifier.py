"""A small classifier of a labelled data set, whose last hidden layer gives the features in which samples are compared.

Inception was trained on photographs, not digits, and its weights need a download; this one is trained on the data itself, in
minutes on a CPU. Figures in its features compare with each other, but with no published ones.
"""

import hashlib
import itertools
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate, pad
from tqdm import tqdm

from ganexp.data import Dataset, default_folder, load_cached
from ganexp.data.feed import to_range
from ganexp.documents import read_state, write_state
from ganexp.evaluation.features import Extracted, features_checksum
from ganexp.facts import UserError
from ganexp.printable import one_line
from ganexp.streams import stream, undisturbed

FORMAT = 3
BATCH = 128
HELD_OUT = 5
"""One image in this many is held out of training, to measure the accuracy."""
SHIFT = 2
"""The largest shift of training images, in pixels."""
IMAGES_SEEN, EPOCHS = 45_000, 25
"""The images of all epochs together; up to four times as many if that takes at most `EPOCHS` epochs.

Of a set that is larger than that, four times `IMAGES_SEEN` images are chosen at random.
"""
SHUFFLES = 999
"""The shuffles of the permutation test of the accuracy."""
CHANCE = 1 / (1 + SHUFFLES)
"""The largest p-value at which a classifier knows its classes: no shuffle reaches its accuracy."""


class KnowsNothing(UserError):
    """A classifier cannot judge samples: it has too few classes or images, or chance explains its accuracy."""


@dataclass
class ClassifierRecord:
    """The training data and the accuracy of a classifier.

    Args:
        dataset: The name of the data set.
        shape: Shape of its images.
        classes: The number of classes.
        accuracy: The share of held-out images that it classifies correctly.
        by_chance: The p-value of that accuracy, by the function `by_chance`.
    """

    dataset: str
    shape: tuple[int, int, int]
    classes: int
    accuracy: float = 0.0
    by_chance: float = 1.0


class Classifier(nn.Module):
    """Three strided convolutions, each followed by batch norm and ReLU, and a layer of 64 features before the classes.

    Images are scaled to squares as high as its training images; another number of channels is refused.
    """

    size = 64
    note = "in features of a classifier of ours, not comparable with published figures"

    def __init__(self, record: ClassifierRecord) -> None:
        super().__init__()
        self.record = record
        self.classes = record.classes
        channels, side, _ = record.shape
        widths = (channels, 32, 64, 128)
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(widths):
            layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        last = -(-side // 8)  # after three halvings, rounded up
        self.layers = nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * last**2, self.size), nn.ReLU())
        self.head = nn.Linear(self.size, record.classes)

    @property
    def name(self) -> str:
        """The data set that it was trained on, and the size of its images, in words."""
        _, height, width = self.record.shape
        return f"{self.record.dataset} classifier {height}×{width}"

    @property
    def checksum(self) -> str:
        return features_checksum(self.state_dict())

    @property
    def ignorance(self) -> str:
        """The reason why it cannot judge samples; empty if it can."""
        if self.record.by_chance <= CHANCE:
            return ""
        return f"is right about {self.record.accuracy:.2%} of held-out images, no more than chance explains"

    def forward(self, images: Tensor) -> Extracted:
        """Map `(B, C, H, W)` in [-1, 1] to features `(B, 64)` and logits `(B, K)`."""
        features = self.layers(self._scaled(images))
        return features, self.head(features)

    def maps(self, images: Tensor) -> list[Tensor]:
        """Return the maps after each convolution, batch norm and ReLU, `(B, …)`, for images `(B, C, H, W)` in [-1, 1]."""
        x, maps = self._scaled(images), []
        for layer in self.layers:
            x = layer(x)
            if isinstance(layer, nn.ReLU):
                maps.append(x)
        return maps[:-1]  # the last one follows the linear layer

    def _scaled(self, images: Tensor) -> Tensor:
        channels, side, _ = self.record.shape
        if images.shape[1] != channels:
            raise UserError(f"the {self.name} sees images of {channels} channels, and these have {images.shape[1]}")
        images = images.to(self.head.weight.dtype)
        if images.shape[-2:] != (side, side):
            images = interpolate(images, (side, side), mode="bilinear", antialias=True)
        return images

    def save(self, path: Path) -> None:
        """Write the classifier to a file, atomically."""
        state = {name: value.cpu() for name, value in self.state_dict().items()}
        record = asdict(self.record) | {"shape": list(self.record.shape)}
        write_state(path, {"format": FORMAT, "origin": record, "checksum": self.checksum, "state": state})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> "Classifier":
        """Load a classifier; only tensors and plain values are read, and no code is run."""
        try:
            saved = read_state(path)
            record = ClassifierRecord(**saved["origin"] | {"shape": tuple(saved["origin"]["shape"])})
            with torch.device("meta"):
                classifier = cls(record)
            classifier.load_state_dict(saved["state"], assign=True)
            if saved["format"] != FORMAT or classifier.checksum != saved["checksum"]:
                raise ValueError("its checksum is another one")
        except FileNotFoundError as error:
            raise UserError(f"{path} is not there: train it by {_command(path)}") from error
        except Exception as error:  # an arbitrary file raises errors of any type
            raise UserError(f"{path} is broken: train it anew by {_command(path)}") from error
        return classifier.to(device).eval().requires_grad_(False)


def stored(folder: Path, dataset: str, which: str = "") -> Path:
    """Return the path of a data set's classifier; `which` distinguishes sets of one name, such as image folders."""
    dataset = Path(dataset).name  # a configuration of anyone could name a path
    return folder / (f"{dataset}-{hashlib.sha256(which.encode()).hexdigest()[:8]}.pt" if which else f"{dataset}.pt")


def _command(path: Path) -> str:
    dataset, own, _ = path.stem.partition("-")
    return f"ganexp features {dataset}" + (" and the settings of the run's dataset" if own else "")


def train_if_missing(path: Path, dataset: Dataset, name: str, device: torch.device) -> None:
    """Train the classifier of a data set if its file is missing or of an earlier format.

    One of several processes trains it, and the others wait. No random stream is advanced.

    Args:
        path: Its file.
        dataset: The data set, with classes.
        name: The name of the data set in messages.
        device: The device of the training.

    Raises:
        KnowsNothing: There are too few classes or images.
    """
    if _is_there(path):
        return
    _refuse_few_classes(dataset, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")), undisturbed(device):
            if not _is_there(path):
                print(
                    f"The data set {name} has no classifier yet; it is trained once, for all runs.", file=sys.stderr, flush=True
                )
                print(train_and_store(path, dataset, name, device=device), file=sys.stderr, flush=True)
    except UserError:
        raise
    except OSError as error:
        if error.errno is None:  # of an image, not of the folder
            raise UserError(f"no classifier of {name} can be trained: {error}") from error
        reason = f"{error.filename or path}: {error.strerror}"
        raise UserError(f"no classifier of {name} can be kept ({reason}): name another folder with GANEXP_CACHE") from error
    except (RuntimeError, ValueError) as error:
        reason = one_line(error)
        raise UserError(
            f"no classifier of {name} can be trained ({reason}): choose evaluation.features=inception, raw or a file"
        ) from error


def _is_there(path: Path) -> bool:
    """Return whether a classifier file of the current format exists, even a broken one."""
    try:
        return int(read_state(path)["format"]) >= FORMAT
    except Exception:  # a broken file
        return path.is_file()


def _refuse_few_classes(dataset: Dataset, name: str) -> None:
    if dataset.classes < 2:
        raise KnowsNothing(
            f"a classifier of {name} needs two classes of images or more, and there are {dataset.classes or 'none'}"
        )


def train_and_store(path: Path, dataset: Dataset, name: str, *, epochs: int | None = None, device: torch.device) -> str:
    """Train the classifier of a data set, store it, and return a sentence about it."""
    _refuse_few_classes(dataset, name)
    images, labels = load_cached(dataset, default_folder(), place="resident"), dataset.labels()
    if not isinstance(images, Tensor):  # the cache keeps no images of such a dataset
        images = torch.stack([images[index] for index in range(len(labels))])
    most, start = None if epochs else 4 * IMAGES_SEEN, time.perf_counter()
    held_out = labels[divided(len(images), most)[0]]
    if by_chance(held_out, held_out) > CHANCE:
        few = f"{len(images)} images of which {len(held_out)} are held out" if len(held_out) else f"{len(images)} images"
        raise KnowsNothing(f"a classifier of {name} would have {few}, too few to tell what it knows from chance")
    epochs = epochs or epochs_for(len(images))
    classifier = train(images, labels, name, epochs=epochs, device=device, classes=dataset.classes, most=most)
    classifier.save(path)
    sentence = classifier.ignorance or f"is right about {classifier.record.accuracy:.2%} of held-out images"
    return (
        f"The classifier of {name} {sentence}, after {epochs} epochs in "
        f"{time.perf_counter() - start:.0f} s: {path}, checksum {classifier.checksum}."
    )


def epochs_for(images: int) -> int:
    """Return the default number of epochs for so many images."""
    return max(1, round(IMAGES_SEEN / images), min(EPOCHS, round(4 * IMAGES_SEEN / images)))


def train(
    images: Tensor,
    labels: Tensor,
    dataset: str,
    *,
    epochs: int,
    device: torch.device | str = "cpu",
    classes: int = 0,
    most: int | None = None,
) -> Classifier:
    """Train a classifier as `fitted` does, and measure its accuracy on held-out images.

    It is trained in double precision, and its weights are rounded to bfloat16, which hides the order of a machine's sums, so
    that figures of different machines compare. The weights should not depend on the device; no GPU has confirmed that yet.

    Args:
        images: `(N, C, H, W)`, uint8, or floats in [-1, 1].
        labels: `(N,)`, classes from 0 on.
        dataset: Name of the data set.
        epochs: Passes through the training part.
        device: The device of the training.
        classes: Number of classes; 0 for the highest label plus one.
        most: The number of images to use, chosen at random; by default all.
    """
    held_out, order = divided(len(images), most)
    channels, height, width = images.shape[1:]
    record = ClassifierRecord(dataset, (channels, height, width), classes or int(labels.max()) + 1)
    description = "Training the classifier, once"
    classifier = fitted(
        record, images, labels, order, epochs=epochs, device=device, dtype=torch.float64, description=description
    )
    classifier.bfloat16().float()
    predictions, truth = predicted(classifier, images[held_out]), labels[held_out]
    record.accuracy, record.by_chance = float((predictions == truth).double().mean()), by_chance(predictions, truth)
    return classifier


def divided(n: int, most: int | None) -> tuple[Tensor, Tensor]:
    """Return the indices of held-out and of training images, among `n` images, of which `most` are chosen at random."""
    order = torch.randperm(n, generator=stream(0, "held-out images"))[:most]
    return order[: len(order) // HELD_OUT], order[len(order) // HELD_OUT :]


def fitted(
    record: ClassifierRecord,
    images: Tensor,
    labels: Tensor,
    order: Tensor,
    *,
    epochs: int,
    device: torch.device | str,
    description: str,
    dtype: torch.dtype = torch.float32,
) -> Classifier:
    """Train a classifier by Adam with a one-cycle learning rate and random shifts, the same way each time.

    Args:
        record: Its data; the accuracy is not measured.
        images: As for `train`.
        labels: Likewise.
        order: The indices of the images to train on, `(n,)`.
        epochs: Passes through them.
        device: The device of the training.
        description: The label of the progress bar.
        dtype: The precision of weights and images.
    """
    with undisturbed(torch.device(device)), torch.enable_grad():
        classifier = Classifier(record).to(dtype)
        for module in classifier.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                module.reset_parameters()  # initial weights drawn in that precision
        classifier.to(device)
        optimizer = torch.optim.Adam(classifier.parameters(), weight_decay=1e-4)
        steps = epochs * -(-len(order) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
        with tqdm(total=steps, desc=description, unit="batch", disable=None, leave=False) as bar:
            for _ in range(epochs):
                for part in order[torch.randperm(len(order))].split(BATCH):
                    if len(part) == 1:  # batch norm has no statistics of a single 1×1 map
                        continue
                    x = _shifted(to_range(images[part].to(device), dtype))
                    optimizer.zero_grad()
                    cross_entropy(classifier(x)[1], labels[part].to(device)).backward()
                    optimizer.step()
                    schedule.step()
                    bar.update()
    return classifier.eval().requires_grad_(False)


def accuracy(classifier: Classifier, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that are classified correctly."""
    return float((predicted(classifier, images) == labels).double().mean())


@torch.no_grad()
def predicted(classifier: Classifier, images: Tensor) -> Tensor:
    """Return the most probable class of each image, `(N,)`, on the CPU."""
    device = classifier.head.weight.device
    logits = (classifier(to_range(part.to(device), torch.float32))[1] for part in images.split(500))
    return torch.cat([batch.argmax(1).cpu() for batch in logits])


def by_chance(predicted: Tensor, labels: Tensor) -> float:
    """Return the p-value of a permutation test: the share of shuffles of the labels for which as many predictions are right."""
    generator, right = stream(0, "shuffled classes"), int((predicted == labels).sum())
    shuffled = (labels[torch.randperm(len(labels), generator=generator)] for _ in range(SHUFFLES))
    return (1 + sum(int((predicted == classes).sum()) >= right for classes in shuffled)) / (1 + SHUFFLES)


def _shifted(images: Tensor) -> Tensor:
    """Shift all images of a batch alike, by up to `SHIFT` pixels in each direction; new pixels are black."""
    down, right = torch.randint(2 * SHIFT + 1, (2,)).tolist()
    padded = pad(images, (SHIFT,) * 4, value=-1.0)
    return padded[:, :, down : down + images.shape[2], right : right + images.shape[3]]
