"""The measures, each in a file of its own; `conf/measure/` has a name and the settings of each."""

from ganexp.evaluation.measures.cas import CAS
from ganexp.evaluation.measures.cmmd import CMMD
from ganexp.evaluation.measures.density_coverage import DensityCoverage
from ganexp.evaluation.measures.fid import FID
from ganexp.evaluation.measures.fid_infinity import FIDInfinity
from ganexp.evaluation.measures.inception_score import InceptionScore
from ganexp.evaluation.measures.inception_score_infinity import InceptionScoreInfinity
from ganexp.evaluation.measures.intra_fid import IntraFID
from ganexp.evaluation.measures.kid import KID
from ganexp.evaluation.measures.memorisation import Memorisation
from ganexp.evaluation.measures.modes import ModeCounting
from ganexp.evaluation.measures.precision_recall import PrecisionRecall
from ganexp.evaluation.measures.sliced_wasserstein import SlicedWasserstein

__all__ = [
    "CAS",
    "CMMD",
    "FID",
    "KID",
    "DensityCoverage",
    "FIDInfinity",
    "InceptionScore",
    "InceptionScoreInfinity",
    "IntraFID",
    "Memorisation",
    "ModeCounting",
    "PrecisionRecall",
    "SlicedWasserstein",
]
