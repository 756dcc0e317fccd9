"""g-DPPCA: private PCA of the spherical Kendall matrix, as in the R package dppca.

Kim and Jung, "Robust and differentially private principal component analysis", Statistical
Analysis and Data Mining 18 (2025); R package dppca 0.1.0 on CRAN, function `dp_pc_dir` with
`g_dppca = TRUE`. Differences of rows are scaled to length 1, the mean of their outer products over
all pairs gets Gaussian noise, and its leading eigenvectors are the answer. No centre is needed.

Two choices of ours, neither against the method:

- not all n(n − 1)/2 pairs are taken but those of each row with the next `SHIFTS` rows after a
  random permutation, around the end. Each row is in 2·`SHIFTS` of n·`SHIFTS` pairs, the same share
  2/n as in the whole mean, so the sensitivity is the same, and a table of 60 000 rows is feasible;
- the noise is that of the exact Gaussian curve for the sensitivity 2√2/n: a replaced row moves a
  share 2/n of the terms, and two outer products of unit vectors differ by at most √2. The noise is
  isotropic on symmetric matrices, as in the package.
"""

from math import sqrt

import numpy as np

from benchmarks.utility.coinpress import noise
from stillspace._typing import FloatArray
from stillspace.parts.geometry import top_eigenvectors

SHIFTS = 50


def kendall_matrix(Z: FloatArray, shifts: int = SHIFTS) -> FloatArray:
    """Return the mean outer product of normalised differences of rows 1 … `shifts` apart."""
    n = len(Z)
    shifts = min(shifts, (n - 1) // 2)
    K = np.zeros((Z.shape[1], Z.shape[1]))
    for s in range(1, shifts + 1):
        U = Z - np.roll(Z, -s, axis=0)
        norms = np.linalg.norm(U, axis=1, keepdims=True)
        U /= np.where(norms > 0.0, norms, 1.0)  # equal rows: a zero term
        K += U.T @ U
    return np.asarray(K / (n * shifts))


def g_dppca(K: FloatArray, n: int, r: int, mu: float, rng: np.random.Generator) -> FloatArray:
    """Return a private basis (D, r) from the Kendall matrix of n rows."""
    return top_eigenvectors(K + noise(n, len(K), sqrt(2.0), mu, 1.0, rng), r)
