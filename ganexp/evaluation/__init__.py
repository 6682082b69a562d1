"""Evaluation: measures that compare a generated set with a real one, in the features of a named network.

A set is read once, batch by batch, and only statistics of it are kept (`statistics.py`). A measure (`base.py`) is a function
of the statistics of two sets, or of pairs of a sample and what it should be (`measures/pairs.py`); an `Evaluator` holds the
statistics of the real set and the chosen measures.
"""

from ganexp.evaluation.base import Measure, high, low
from ganexp.evaluation.classifier import Classifier
from ganexp.evaluation.evaluator import Evaluator, real_batches
from ganexp.evaluation.features import Exported, Features, Inception, PerChannel, Raw
from ganexp.evaluation.measures.cas import CAS
from ganexp.evaluation.measures.cmmd import CMMD
from ganexp.evaluation.measures.density_coverage import DensityCoverage
from ganexp.evaluation.measures.fid import FID, FIDInfinity, IntraFID
from ganexp.evaluation.measures.inception_score import InceptionScore, InceptionScoreInfinity
from ganexp.evaluation.measures.kid import KID
from ganexp.evaluation.measures.lpips import LPIPS
from ganexp.evaluation.measures.memorisation import Memorisation
from ganexp.evaluation.measures.modes import ModeCounting
from ganexp.evaluation.measures.precision_recall import PrecisionRecall
from ganexp.evaluation.measures.psnr import PSNR
from ganexp.evaluation.measures.sliced_wasserstein import SlicedWasserstein
from ganexp.evaluation.measures.ssim import SSIM

__all__ = [
    "CAS",
    "CMMD",
    "FID",
    "KID",
    "LPIPS",
    "PSNR",
    "SSIM",
    "Classifier",
    "DensityCoverage",
    "Evaluator",
    "Exported",
    "FIDInfinity",
    "Features",
    "Inception",
    "InceptionScore",
    "InceptionScoreInfinity",
    "IntraFID",
    "Measure",
    "Memorisation",
    "ModeCounting",
    "PerChannel",
    "PrecisionRecall",
    "Raw",
    "SlicedWasserstein",
    "high",
    "low",
    "real_batches",
]
