"""Flags of small tables: distances from the other rows by definition, laws by simulation."""

import numpy as np
import pytest
from scipy.stats import beta, f, norm

from stillspace import RobustPCA
from stillspace.diagnostics import diagnose
from stillspace.search.few_rows import (
    LEFT_OUT,
    clean_rows,
    judged,
    square_limit,
    squares_from_others,
    tail_lost,
)

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


def judged_rows(scores, R, level=0.0126, **options):
    Z = np.column_stack([scores, R])
    everything, central = np.ones(len(Z), dtype=bool), np.linalg.norm(Z, axis=1)
    return judged(scores, R, everything, central, level, **{"given_scores": True, **options})


def test_the_distance_across_is_that_from_a_prediction(rng):
    """Against t² of a new row in the least-squares regression on the scores of the other rows."""
    scores = rng.standard_normal((25, 2))
    R = (scores @ [0.3, -0.2] + rng.standard_normal(25))[:, None]
    found = judged_rows(scores, R)
    lost = tail_lost(1, 0.0126)
    for i in np.flatnonzero(found.inside):
        others = found.inside & (np.arange(25) != i)
        A, m = np.column_stack([np.ones(others.sum()), scores[others]]), others.sum()
        (beta_hat, rss, *_), x = np.linalg.lstsq(A, R[others, 0]), np.array([1.0, *scores[i]])
        error = x @ np.linalg.solve(A.T @ A, x)
        t_squared = (R[i, 0] - x @ beta_hat) ** 2 / (rss[0] / (m - 3)) / (1.0 + error)
        along = squares_from_others(scores, found.inside)[i]  # without what its tail lost
        lever = (1.0 + found.leverage * along) / (1.0 + found.leverage * found.along[i])
        want = t_squared * (m**2 - 1) / (m * (m - 3)) * lever / lost
        assert found.across[i] == pytest.approx(want)
    others = found.inside.sum() - 1
    assert found.across_limit == pytest.approx(
        (others**2 - 1) / (others * (others - 3)) * f.isf(0.0126, 1, others - 3)
    )


def test_what_a_tail_takes_from_the_variance():
    z = norm.isf(0.01)
    assert 1.0 / tail_lost(1, 0.02) == pytest.approx(1.0 - 2.0 * z * norm.pdf(z) / 0.98)
    # 400 000 draws: the standard error is .003
    Z = np.random.default_rng(0).standard_normal((400_000, 3))
    kept = Z[np.sum(Z**2, axis=1) < 9.348]  # χ²(3) at .025
    assert 1.0 / tail_lost(3, 0.025) == pytest.approx(kept.var(), abs=0.015)
    assert tail_lost(0, 0.1) == 1.0


def test_flagged_rows_are_left_out_and_the_others_judge_again():
    rng = np.random.default_rng(4)
    scores, R = rng.standard_normal((30, 1)), rng.standard_normal((30, 2))
    R[:2] = [[3.6, 0.0], [0.0, 3.6]]  # too near to be left out at first
    found = judged_rows(scores, R)
    assert clean_rows(np.column_stack([scores, R]), np.linalg.norm(R, axis=1)).all()
    assert not found.within[0]
    assert not found.inside[:2].any()
    squares = squares_from_others(scores, found.inside)
    np.testing.assert_allclose(found.along, squares / tail_lost(1, 0.0126))
    one = judged_rows(scores, R[:, :1], given_scores=False)
    squares = squares_from_others(R[:, :1], one.inside)
    np.testing.assert_allclose(one.across, squares / tail_lost(1, 2 * 0.0126))


def test_an_outlier_of_the_rows_near_a_fit_that_is_tilted():
    """The inliers' own line is not that of the fit: their scores tell how far off it they lie."""
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((40, 1))
    R = 0.2 * scores + 0.05 * rng.standard_normal((40, 1))
    R[0], scores[0] = 0.3, -1.0  # as near to the fit as others, but off their line
    found = judged_rows(scores, R)
    assert found.across.argmax() == 0
    assert found.across[0] > 4 * found.across_limit
    plain = judged_rows(scores, R, given_scores=False)
    assert plain.within[0]


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
