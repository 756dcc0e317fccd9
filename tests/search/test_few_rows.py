"""Flags of small tables: distances from the other rows by definition, laws by simulation."""

import numpy as np
import pytest
from scipy.stats import beta, f

from stillspace import RobustPCA
from stillspace.diagnostics import diagnose
from stillspace.search.few_rows import LEFT_OUT, clean_rows, square_limit, squares_from_others

# Brownlee's stackloss data (1965): air flow, water temperature, acid concentration, loss.
STACKLOSS = np.array(
    """80 27 89 42, 80 27 88 37, 75 25 90 37, 62 24 87 28, 62 22 87 18, 62 23 87 18, 62 24 93 19,
    62 24 93 20, 58 23 87 15, 58 18 80 14, 58 18 89 14, 58 17 88 13, 58 18 82 11, 58 19 93 12,
    50 18 89 8, 50 18 86 7, 50 19 72 8, 50 19 79 8, 50 20 80 9, 56 20 82 15, 70 20 91 15""".replace(
        ",", " "
    ).split(),
    dtype=float,
).reshape(21, 4)


def test_the_distance_from_the_other_rows_by_its_definition(rng):
    Z = rng.standard_normal((15, 3)) @ rng.standard_normal((3, 3))
    inside = np.arange(15) < 12
    found = squares_from_others(Z, inside)
    for i in range(15):
        others = Z[inside & (np.arange(15) != i)]
        about = Z[i] - others.mean(axis=0)
        assert found[i] == pytest.approx(about @ np.linalg.solve(np.cov(others.T), about))


def test_the_limit_is_the_one_of_wilks(rng):
    # Of n rows and their own covariance: a = n d²/(n−1)² has a beta law (Wilks 1963).
    n, p, level = 20, 4, 0.025
    a = beta.isf(level, p / 2, (n - p - 1) / 2)
    assert square_limit(n - 1, p, level) == pytest.approx(n * (n - 2) / (n - 1) * a / (1 - a))
    assert square_limit(10**7, p, level) == pytest.approx(p * f.isf(level, p, 10**7), rel=1e-5)


# 400 tables: the standard error of a share of .1 is .015. The search may only leave out more.
def test_clean_tables_mostly_keep_all_rows():
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(400):
        Z = rng.standard_normal((25, 3))
        kept.append(clean_rows(Z, np.linalg.norm(Z, axis=1)).mean())
    assert LEFT_OUT / 2 < np.mean(np.array(kept) < 1.0) < 2 * LEFT_OUT
    assert min(kept) >= 0.5


def test_a_group_of_outliers_does_not_hide_itself(rng):
    Z = rng.standard_normal((40, 3))
    Z[:12] += 9.0
    assert np.array_equal(clean_rows(Z, np.linalg.norm(Z, axis=1)), np.arange(40) >= 12)


def test_outliers_along_a_direction_of_little_noise():
    # Rows 1 to 4 and 21 are outliers by every robust regression of the literature.
    scale = 1.4826 * np.median(np.abs(STACKLOSS - np.median(STACKLOSS, axis=0)), axis=0)
    pca = RobustPCA(2, scale=scale).fit(STACKLOSS)
    found = diagnose(pca, STACKLOSS)
    assert np.flatnonzero(found.outliers).tolist() == [0, 1, 2, 3, 20]
    again = found.of(pca, STACKLOSS)  # these are not in the rows that set the cut-offs
    np.testing.assert_allclose(
        again.orthogonal_distance[found.outliers], found.orthogonal_distance[found.outliers]
    )


# Nothing need stand out in 20 rows. Each share is a mean over 1200 rows: .0045 by
# chance, and seeds are fixed.
@pytest.mark.filterwarnings("ignore::stillspace.exceptions.DisagreementWarning")
@pytest.mark.parametrize(("n", "D", "r"), [(20, 5, 2), (20, 20, 2), (60, 10, 3)])
def test_clean_rows_of_small_tables_are_flagged_as_promised(n, D, r):
    flagged = []
    for seed in range(1200 // n):
        rng = np.random.default_rng((n, D, seed))
        V = np.linalg.qr(rng.standard_normal((D, r)))[0]
        X = rng.standard_normal((n, r)) @ V.T + 0.2 * rng.standard_normal((n, D)) + 3.0
        flagged.append(diagnose(RobustPCA(r).fit(X), X).outliers.mean())
    assert 0.015 < np.mean(flagged) < 0.04
