"""The measures, by name."""

from ganexp.evaluation.comparison import Comparison
from ganexp.evaluation.counting import ModeCounting
from ganexp.evaluation.fidelity import FID, KID, InceptionScore, PrecisionRecall
from ganexp.evaluation.neighbours import DensityCoverage
from ganexp.evaluation.wasserstein import SlicedWasserstein

MEASURES: dict[str, Comparison] = {
    "fid": FID(),
    "kid": KID(),
    "inception_score": InceptionScore(),
    "precision_recall": PrecisionRecall(),
    "density_coverage": DensityCoverage(),
    "sliced_wasserstein": SlicedWasserstein(),
    "modes": ModeCounting(),
}
"""By the name that `evaluation.measures` takes."""
