"""Axes inside a subspace: order and sign of the components. Post-processing of releases."""

from __future__ import annotations

import numpy as np

from stillspace._typing import FloatArray


def oriented(V: FloatArray, moment: FloatArray | None) -> FloatArray:
    """Return components (r, D): axes by decreasing variance, signs by scikit-learn's rule.

    The variances are those of a second moment, of the rows or of their scores, that was released
    already, so this is post-processing (SPEC 5). Without one the axes inside the subspace mean
    nothing.
    """
    if moment is not None:
        inside = moment if moment.shape[0] == V.shape[1] else V.T @ moment @ V
        _, W = np.linalg.eigh(inside)
        V = V @ W[:, ::-1]
    components = np.ascontiguousarray(V.T)
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(components * signs[:, None])
