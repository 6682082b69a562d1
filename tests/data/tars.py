"""Shards as other tools write them, made by hand from bytes."""

import io
import tarfile

from PIL import Image

from tests.data.samples import noise


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def tar(members):
    """Return the bytes of a tar file of members, each a name and its content, in this order."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def shards(n=10, of=4, *, side=8, labelled=True):
    """Return the contents of shards with `n` images in all, up to `of` in each, and the images `(n, side, side, 3)`."""
    images, contents = noise(n, side, side, 3), []
    for begin in range(0, n, of):
        members = []
        for i in range(begin, min(n, begin + of)):
            members.append((f"{i:04d}.png", png(images[i])))
            if labelled:
                members.append((f"{i:04d}.cls", b"%d" % (i % 3)))
        contents.append(tar(members))
    return contents, images


def written(folder, **kind):
    """Write shards to a folder, and return the pattern that names them and their images."""
    folder.mkdir()
    contents, images = shards(**kind)
    for number, content in enumerate(contents):
        (folder / f"train-{number:03d}.tar").write_bytes(content)
    return f"{folder}/train-*.tar", images
