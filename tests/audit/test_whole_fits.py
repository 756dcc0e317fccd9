"""Adversarial rows against whole fits: every release, at its own point and behind its own view.

A fit is run once, and all its releases are kept. Then rows of all kinds are put in the place of
one person's row. Each release must move by no more than its event says, and all of them together
by no more than the guarantee says. Sums are measured in units of their noise.
"""

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.exceptions import SeededNoiseWarning
from stillspace.parts.noise import seeded_generator
from stillspace.privacy.accounting import full_batch_mu
from stillspace.rows import LabelledRows, MemoryRows, label_codes, through_view
from stillspace.run import run

N, D = 3000, 8
ALL = ("variances", "distances", "scores", "scree", "certificate")
HIDDEN = {"neighboring_relation": "add-or-remove-one", "public_size": 2500}
LISTED = ("a", "b")


def haystack():
    return make_haystack(N, D, 2, inlier_noise=0.05, random_state=0).X


def in_odd_units():
    return haystack() * [1.0, 10.0, 0.1, 3.0, 1e3, 1.0, 1.0, 1.0] + 5.0


def with_a_group():
    """Three in four rows near a subspace, the others in one place."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D)) * np.r_[1.0, 1.0, np.full(D - 2, 0.05)]
    X[: N // 4] = 0.05 * X[: N // 4] + np.eye(D)[5] + np.eye(D)[6]
    return X


FITS = {
    "default": PrivateRobustPCA(2, epsilon=2.0),
    "summaries and labels": PrivateRobustPCA(2, epsilon=2.0, summaries=ALL, labels=LISTED),
    "secret number of rows": PrivateRobustPCA("auto", epsilon=2.0, summaries=ALL, **HIDDEN),
    "three rows per person": PrivateRobustPCA(2, epsilon=4.0, rows_per_person=3),
    "pairs": PrivateRobustPCA(2, epsilon=4.0, center="pairs", scale=None),
    "median": PrivateRobustPCA(2, epsilon=2.0, center="median", radius=20.0, scale=None),
    "a group left out": PrivateRobustPCA(2, epsilon=6.0, center=None, scale=None),
    "units found again": PrivateRobustPCA(2, epsilon=6.0),
    "clipped": PrivatePCA(2, epsilon=2.0, norm_bound=3.0, summaries=ALL[:4]),
}
TABLES = {
    "pairs": haystack,
    "median": haystack,
    "a group left out": with_a_group,
    "units found again": with_a_group,
}


def strange_rows(rng, V, X):
    """Rows at the ends of what floats hold, along and across the subspace V (D, r), and usual."""
    found = [np.full(D, x) for x in (0.0, -0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324)]
    found += [10.0**k * rng.standard_normal(D) for k in (-300, -20, -3, 0, 2, 5, 300) for _ in "ab"]
    across = rng.standard_normal(D)
    across -= V @ (V.T @ across)
    across /= np.linalg.norm(across)
    for v in V.T:
        for e in (0.0, 1e-9, 1e-3, 0.1, 0.5, 1.0, 30.0):
            found += [v + e * across, v - e * across, -v - e * across]
    for _ in range(6):
        x = rng.standard_normal(D)
        x[rng.random(D) < 0.4] = np.nan
        found.append(x)
    return np.array([*found, *X[:: len(X) // 12]])


def terms(part, rows):
    """The term of one row, in units of the noise of a release."""
    release = part.release
    units = np.sqrt(release.query.noise.precision).ravel() / release.sigma(part.first)
    return units * np.ravel(rows.add(release.asked, part.points[0], None))


def apart(T, relation):
    """The largest square of a term, or of the difference of two terms."""
    G = T @ T.T
    squares = np.diag(G)
    one = squares if relation == "add-or-remove-one" else squares[:, None] + squares - 2.0 * G
    return float(one.max())


def mapped(x, group, part, known):
    """One strange row behind the view of a release; for pairs, its difference to a zero row."""
    if part.view not in known:
        X = np.stack([x, np.zeros(D)])[: 1 if part.pairs is None else 2]
        rows = LabelledRows(MemoryRows.of(X), np.full(len(X), group))
        known[part.view] = through_view(rows, part.view, np.array([[0, 1]]))
    return known[part.view]


@pytest.mark.filterwarnings(f"ignore::{SeededNoiseWarning.__module__}.SeededNoiseWarning")
@pytest.mark.parametrize("name", FITS)
def test_no_row_moves_a_fit_by_more_than_it_claims(name):
    given, X, seen = FITS[name], TABLES.get(name, in_odd_units)(), []
    labels = ["a", "b", "c"] * (N // 3)
    est = given.set_params(random_state=1).fit(X, labels if given.labels else None)
    rows = LabelledRows(MemoryRows.of(X), label_codes(labels, LISTED))
    result = run(est.plan_, rows, seeded_generator(2), witness=seen.append)

    relation, k = est.neighboring_relation, est.rows_per_person
    V = result.V if len(result.V) == D else np.eye(D)[:, :2]
    strange = strange_rows(np.random.default_rng(3), V, X)
    by_release = [[] for _ in seen]
    for i, x in enumerate(strange):
        known = {}
        for found, part in zip(by_release, seen, strict=True):
            found.append(terms(part, mapped(x, i % 3, part, known)))
    reached = []
    for found, part in zip(by_release, seen, strict=True):
        moved = k**2 * apart(np.array(found), relation)
        allowed = float(part.release.event(part.first).squared_mu(relation))
        assert moved <= allowed, part.release.query.name
        reached.append(moved / allowed)
    assert max(reached) > 0.99  # the rows are strange enough

    claimed = full_batch_mu(est.privacy_.event, relation) ** 2
    whole = np.array([np.concatenate(parts) for parts in zip(*by_release, strict=True)])
    assert 0.3 * claimed < k**2 * apart(whole, relation) <= claimed
