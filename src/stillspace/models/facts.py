"""What writing and reading a model file have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stillspace._model_files import LONGEST_TEXT
from stillspace.estimators import PrivatePCA, PrivateRobustPCA, RobustPCA

Model: TypeAlias = RobustPCA | PrivateRobustPCA | PrivatePCA

CLASSES: dict[str, type[Model]] = {
    "PrivatePCA": PrivatePCA,
    "PrivateRobustPCA": PrivateRobustPCA,
    "RobustPCA": RobustPCA,
}
SKETCH = "stillspace sketch"
RELEASED = ("error_estimate", "route", "variances", "distance_quantiles", "pair_cut")
LONGEST_PARAMETER = LONGEST_TEXT // 8
"""A longer parameter (a centre of 13 000 columns, say) is left out; `center_` is stored anyway."""
MOST_GROUPS = 64
SECRET = "random_state"
"""Never stored: whoever has the seed of a fit can remove its noise."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Where a loaded model comes from."""

    format: int
    written: str
    """When the file was first written, in UTC; empty for a file of format 2."""
    version: str
    """Of stillspace, when the file was first written."""
    sha256: str
    """Of every byte before the checksum; empty for a file of format 2."""
    signature: str
    """"" (none), "not checked" or "checked"."""

    def __str__(self) -> str:
        if not self.sha256:
            return (
                f"format {self.format}, written by stillspace {self.version}: no date, no checksum"
            )
        signed = {
            "": "not signed",
            "not checked": "signed; the signature was not checked (give the key)",
            "checked": "signed, and the signature is that of the given key",
        }[self.signature]
        return (
            f"written {self.written} by stillspace {self.version}, checksum sha256 "
            f"{self.sha256[:16]}… is right, {signed}"
        )
