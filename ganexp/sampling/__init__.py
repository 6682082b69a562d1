"""Uses of a trained generator: samples by index, pictures, films, files, exports, and a folder to publish."""

from ganexp.sampling.exporting import export
from ganexp.sampling.guided import Langevin, Rejection
from ganexp.sampling.hub import push
from ganexp.sampling.saved import save
from ganexp.sampling.trained import Origin, Trained

__all__ = ["Langevin", "Origin", "Rejection", "Trained", "export", "push", "save"]
