"""PCA that resists outliers and limits what anyone can learn about a single person in the data.

`import stillspace` imports nothing else; names load when they are used.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stillspace.estimators import PrivatePCA, PrivateRobustPCA, RobustPCA
    from stillspace.extending import register_recipe
    from stillspace.pipelines import check_pipeline
    from stillspace.privacy import Budget, Guarantee

__version__ = "0.2.0"

__all__ = [
    "Budget",
    "Guarantee",
    "PrivatePCA",
    "PrivateRobustPCA",
    "RobustPCA",
    "__version__",
    "check_pipeline",
    "register_recipe",
]

_HOMES = {
    "Budget": "stillspace.privacy",
    "Guarantee": "stillspace.privacy",
    "PrivatePCA": "stillspace.estimators.private",
    "PrivateRobustPCA": "stillspace.estimators.private",
    "RobustPCA": "stillspace.estimators.robust",
    "check_pipeline": "stillspace.pipelines",
    "register_recipe": "stillspace.extending",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(_loaded(_HOMES[name]), name)
    msg = f"module 'stillspace' has no attribute {name!r}"
    raise AttributeError(msg)


def _loaded(module: str) -> Any:
    """Return a module. Meanwhile no garbage is collected, which would take as long as loading.

    Loading makes many objects and hardly any garbage, and every look for garbage passes over all
    objects of the libraries that are loaded already. Frozen and unfrozen, the new ones count as
    old: otherwise the next look would pass over them all.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if gc.get_freeze_count() == 0:  # whoever has frozen objects keeps them frozen
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
