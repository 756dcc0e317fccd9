"""The scikit-learn face of the library."""

from stillspace.estimators.private import PrivatePCA, PrivateRobustPCA
from stillspace.estimators.robust import RobustPCA

__all__ = ["PrivatePCA", "PrivateRobustPCA", "RobustPCA"]
