import gc
import os

import numpy as np
import pytest

from stillspace.rows.sums import empty_sum
from tests.kernels import reference


def pytest_configure():
    """Let the threads of OpenBLAS sleep soon after a product.

    Otherwise they poll for a while, which takes the processor from the other processes that run
    tests. The number of threads stays as it is. The processes that pytest-xdist and tests start
    read this; in a process that has loaded NumPy already it has no effect.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def pytest_collection_finish():
    """Spare later looks for garbage what the imports made: it lives as long as the tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240613)


def unit_rows(rng: np.random.Generator, n: int, D: int) -> np.ndarray:
    """Random unit rows as columns (D, n)."""
    return reference.unit_columns(rng.standard_normal((D, n)), 0.0)


def random_basis(rng: np.random.Generator, D: int, r: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


def random_in_h(rng: np.random.Generator, D: int, r: int) -> np.ndarray:
    """A matrix with 0 ⪯ P ⪯ I and trace r, by averaging projectors: no code of ours."""
    bases = [random_basis(rng, D, r) for _ in range(3)]
    P = sum(w * V @ V.T for w, V in zip(rng.dirichlet(np.ones(3)), bases, strict=True))
    return (P + P.T) / 2


def sum_of(parts, shape, norm_bound, first=0):
    """The sum of consecutive jobs, from number `first` on."""
    total = empty_sum(shape, norm_bound, first)
    for part in parts:
        total.add(part)
    return total
