"""The Fréchet distance within classes."""

from typing import ClassVar

from ganexp.evaluation.base import Measure, low
from ganexp.evaluation.errors import EvaluationError
from ganexp.evaluation.frechet import frechet_distances
from ganexp.evaluation.statistics import ClassMoments


class IntraFID(Measure[ClassMoments]):
    """Intra-class FID: the Fréchet distance within each class, averaged over the classes (Miyato & Koyama 2018, section 4).

    It sees what FID does not: a generator that mixes classes up, or makes one image of each. Classes have far fewer samples
    than the set, so it is higher than FID, and compares only at the same number of samples. Covariances may be singular, as
    they are in publications. The paper takes 5,000 samples of each class; here classes are as frequent as in the data.
    """

    keys: ClassVar = {
        "eval/intra_fid": low("Fréchet distance within classes, mean over them, in squared units of the features")
    }
    keeps = ClassMoments
    looks_at_labels = True

    def __call__(self, real: ClassMoments, fake: ClassMoments) -> dict[str, float]:
        """Return the mean distance, in squared units of the features.

        Raises:
            EvaluationError: A class has fewer than two samples.
        """
        distances = []
        for label, moments in sorted(real.of.items()):
            made = fake.of.get(label)
            if made is None or min(moments.n, made.n) < 2:
                few, of = (moments.n, "real") if moments.n < 2 else (made.n if made else 0, "generated")
                raise EvaluationError(f"intra_fid: class {label} has {few} {of} samples, and a distance takes 2")
            distances += frechet_distances(moments, [made])
        return {"eval/intra_fid": sum(distances) / len(distances)}
