"""Tiny sets in the formats in which their makers publish them; sums that torchvision would compare are taken as they are."""

import hashlib
import pickle
import struct

import numpy as np
import scipy.io
from PIL import Image
from torchvision import datasets


def write_emnist(root, split, images, labels):
    """Rows and columns are exchanged in its files."""
    raw = root / "EMNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    head = struct.pack(">IIII", 2051, *images.shape)
    (raw / f"emnist-{split}-train-images-idx3-ubyte").write_bytes(head + images.transpose(0, 2, 1).tobytes())
    head = struct.pack(">II", 2049, len(labels))
    (raw / f"emnist-{split}-train-labels-idx1-ubyte").write_bytes(head + bytes(labels))


def write_cifar100(root, images, labels, monkeypatch):
    folder = root / "cifar-100-python"
    folder.mkdir()
    content = {"data": images.reshape(len(images), -1), "fine_labels": labels, "coarse_labels": [0] * len(labels)}
    (folder / "train").write_bytes(pickle.dumps(content))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["thing"]}))
    monkeypatch.setattr(datasets.CIFAR100, "train_list", [["train", None]])
    monkeypatch.setattr(datasets.CIFAR100, "test_list", [])
    monkeypatch.setitem(datasets.CIFAR100.meta, "md5", None)


def write_svhn(root, images, labels, monkeypatch):
    """Images lie behind one another along the last axis; the digit 0 is labelled 10."""
    labels = np.array([label or 10 for label in labels], np.uint8)[:, None]
    scipy.io.savemat(root / "train_32x32.mat", {"X": images.transpose(2, 3, 1, 0), "y": labels})
    monkeypatch.setitem(datasets.SVHN.split_list, "train", ["https://none", "train_32x32.mat", None])


def write_stl10(root, labelled, labels, unlabelled, monkeypatch):
    """Columns come before rows; labels begin with 1."""
    folder = root / "stl10_binary"
    folder.mkdir()
    for name, images in (("train", labelled), ("unlabeled", unlabelled), ("test", labelled[:0])):
        (folder / f"{name}_X.bin").write_bytes(images.transpose(0, 1, 3, 2).tobytes())
    (folder / "train_y.bin").write_bytes(bytes(label + 1 for label in labels))
    monkeypatch.setattr(datasets.STL10, "train_list", [[f"{name}.bin", None] for name in ("train_X", "train_y", "unlabeled_X")])
    monkeypatch.setattr(datasets.STL10, "test_list", [])


def write_celeba(root, images, parts, monkeypatch):
    """Of images, `parts` says which are for training (0), validation (1) and tests (2)."""
    folder = root / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    names = [f"{i:06}.jpg" for i in range(1, len(images) + 1)]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(folder / name, quality=100, subsampling=0)
    tables = {
        "list_eval_partition": "".join(f"{name} {part}\n" for name, part in zip(names, parts, strict=True)),
        "identity_CelebA": "".join(f"{name} 7\n" for name in names),
        "list_bbox_celeba": f"{len(names)}\nimage_id x_1\n" + "".join(f"{name} 1\n" for name in names),
        "list_landmarks_align_celeba": f"{len(names)}\nlefteye_x\n" + "".join(f"{name} 1\n" for name in names),
        "list_attr_celeba": f"{len(names)}\nSmiling\n" + "".join(f"{name} -1\n" for name in names),
    }
    for name, text in tables.items():
        (folder.parent / f"{name}.txt").write_text(text)
    monkeypatch.setattr(datasets.CelebA, "file_list", [("none", None, f"{name}.txt") for name in tables])


def write_idx(folder, images, labels=None, parts=("train", "t10k")):
    folder.mkdir(parents=True, exist_ok=True)
    n, h, w = images.shape
    for part in parts:
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, n, h, w) + images.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, n) + bytes(labels or n))


def write_cifar10(root, images, labels, monkeypatch):
    """Its images lie in several files, here of two images each."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    parts = [slice(i, i + 2) for i in range(0, len(images), 2)]
    files = [pickle.dumps({"data": images[part].reshape(-1, 3072), "labels": labels[part]}) for part in parts]
    files.append(pickle.dumps({"label_names": ["thing"]}))
    names = [*(f"data_batch_{i}" for i, _ in enumerate(parts)), "batches.meta"]
    sums = [[name, hashlib.md5(content).hexdigest()] for name, content in zip(names, files, strict=True)]
    for name, content in zip(names, files, strict=True):
        (folder / name).write_bytes(content)
    monkeypatch.setattr(datasets.CIFAR10, "train_list", sums[:-1])
    monkeypatch.setattr(datasets.CIFAR10, "test_list", [])
    monkeypatch.setattr(datasets.CIFAR10, "meta", {"filename": "batches.meta", "key": "label_names", "md5": sums[-1][1]})
