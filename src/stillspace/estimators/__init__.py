"""The scikit-learn face of the library. Each estimator loads when it is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stillspace.estimators.private import PrivatePCA, PrivateRobustPCA
    from stillspace.estimators.robust import RobustPCA

__all__ = ["PrivatePCA", "PrivateRobustPCA", "RobustPCA"]


def __getattr__(name: str) -> Any:
    """Return an estimator. Private fits need nothing of what robust fits search with."""
    if name in __all__:
        home = "robust" if name == "RobustPCA" else "private"
        return getattr(import_module(f"stillspace.estimators.{home}"), name)
    msg = f"module 'stillspace.estimators' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
