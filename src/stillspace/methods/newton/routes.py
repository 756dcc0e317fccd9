"""Which way a fit went, in words, and what its estimate of the error is an error to."""

from __future__ import annotations

from math import isnan

NEWTON = "newton"
NOISY_TABLE = "newton: a noisy table"
WEAK_SIGNAL = "private PCA: too weak a signal for steps"
HOPELESS_TABLE = "private PCA: a noisy table, and too little budget to see outliers"
SPLIT_ROWS = "private PCA: different rows hold different directions"
BOTH = "private PCA and steps: a noisy table without visible outliers"

NO_SIGNAL = "the signal is too weak to tell the error of the steps"
FLAT = "a direction across the subspace is nearly as strong as one in it"

_SEPARATOR = "; "
_PCA = (
    "The squared error d² to the leading eigenvectors of the second moment of the same rows, "
    "without noise. Outliers may have moved these eigenvectors; the estimate cannot see that."
)
_NEWTON = (
    "The squared error d² to the subspace that the same steps reach on the same rows without "
    "noise. It does not contain the sampling error of the rows, and it cannot see that a fit went "
    "to a wrong subspace."
)
RELEASED_UNITS = (
    " The centre and the scale count as they were released. What their own noise adds is not "
    "counted, and is often the larger part."
)


def noise_alone(error: float) -> str:
    """Return why the error of an answer near private PCA's is not known."""
    return (
        f"noise alone makes d² ≈ {error:.2g}, and what outliers did to private PCA cannot be seen"
    )


def filled_cells(share: float) -> str:
    """Return why the error of a fit that filled missing cells is not known."""
    return (
        f"{share:.0%} of the rows have missing cells, and the error that filling adds is not "
        "counted"
    )


def with_reason(route: str, reason: str) -> str:
    """Return the route of a fit whose error cannot be told, with the reason."""
    return route + _SEPARATOR + reason


def error_in_words(route: str, error: float) -> str:
    """Return what an estimate of the error is an error to, or why it is not known."""
    if isnan(error):
        reason = route.partition(_SEPARATOR)[2] or "this algorithm makes no estimate"
        return f"The error is not known: {reason}."
    return _NEWTON if route.startswith(NEWTON) else _PCA
