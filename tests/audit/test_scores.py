"""The white-box score against densities written down anew, and what a watched run shows."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from stillspace.audit.neighbours import Neighbours, make_neighbours
from stillspace.audit.scores import WhiteBox
from stillspace.parts.geometry import Polar, WaterFilling
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import Glad, Reaper, SecondMoment
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement
from stillspace.parts.schedules import Constant
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import Release
from stillspace.plans.starts import GivenStart, MomentStart
from stillspace.run import executors, rows_for, run

N, D = 6, 3
V0 = np.eye(D)[:, :1]


def plan_of(sampling, relation="replace-one", query=None, z=0.7, n_iter=4, start=None):
    query = query or Glad(D, 1)
    geometry = Polar(1) if isinstance(query, Glad) else WaterFilling(1)
    release = Release(query, N, z, sampling, relation)
    return Plan("test", start or GivenStart.from_basis(V0), release, geometry, 1, n_iter,
                Constant(0.05))  # fmt: skip


def glad_term(x, V):
    Qx = x - V @ (V.T @ x)
    return np.outer(Qx, V.T @ x) / max(np.linalg.norm(Qx), 2.0**-26)


def reaper_term(x, P):
    u = x - P @ x
    u = u / max(np.linalg.norm(u), 2.0**-26)
    return (np.outer(u, x) + np.outer(x, u)) / 2


def densities(plan, seen, table, fixed):
    """log density of the releases given the iterates, over all selections of the canary.

    `fixed[k]` are the known rows drawn in iteration k, or None for all (full batch).
    """
    total = 0.0
    for k, (point, released) in enumerate(zip(seen.points, seen.released, strict=True)):
        S = released * plan.release.divisor
        term = glad_term if isinstance(plan.release.query, Glad) else reaper_term
        terms = np.array([term(x / max(np.linalg.norm(x), 1e-300), point) for x in table])
        total += math.log(step_density(plan, S, terms, plan.release.sigma(k), fixed[k]))
    return total


def step_density(plan, S, terms, sigma, known):
    sampling, n = plan.release.sampling, len(terms)
    canary = n - 1
    if isinstance(sampling, All):
        weighted = [(1.0, terms.sum(axis=0))]
    elif isinstance(sampling, Poisson):
        base, q = terms[known].sum(axis=0), sampling.rate
        weighted = [(1 - q, base), (q, base + terms[canary])] if n == N else [(1.0, base)]
    elif isinstance(sampling, WithoutReplacement):
        subsets = list(itertools.combinations(range(n), sampling.batch_size))
        weighted = [(1 / len(subsets), terms[list(s)].sum(axis=0)) for s in subsets]
    else:
        draws = list(itertools.product(range(n), repeat=sampling.batch_size))
        weighted = [(1 / len(draws), terms[list(d)].sum(axis=0)) for d in draws]
    return sum(p * block_density(S, mean, sigma) for p, mean in weighted)


def block_density(S, mean, sigma):
    R = S - mean
    if R.shape[0] == R.shape[1]:  # the upper triangle, half the variance off the diagonal
        rows, columns = np.triu_indices(len(R))
        variances = np.where(rows == columns, sigma**2, sigma**2 / 2)
        return multivariate_normal(cov=np.diag(variances)).pdf(R[rows, columns])
    return multivariate_normal(cov=sigma**2 * np.eye(R.size)).pdf(R.ravel())


CASES = {
    "all": (All(), "inliers"),
    "all, zeros": (All(), "zeros"),
    "poisson": (Poisson(0.3), "inliers"),
    "poisson, zeros": (Poisson(0.3), "zeros"),
    "without": (WithoutReplacement(3, N), "copies"),
    "with": (WithReplacement(3, N), "copies"),
}


@pytest.mark.parametrize("query", [Glad(D, 1), Reaper(D, 1)], ids=lambda q: q.name)
@pytest.mark.parametrize("case", CASES)
def test_the_score_is_the_log_likelihood_ratio(case, query):
    sampling, background = CASES[case]
    plan = plan_of(sampling, query=query, z=(0.7, 0.7, 1.1, 0.9))
    pair = make_neighbours(plan, 0.3, background)
    score_matches(plan, pair)


def score_matches(plan, pair):
    for coin in (False, True):
        seen, watch = [], WhiteBox(pair)
        run(
            plan,
            rows_for(plan, pair.table(np.array([coin]))),
            seeded_generator(5 + coin),
            witness=seen.append,
        )
        for part in seen:
            watch(part)
        expected = 0.0
        for part in seen:
            known = [None] * len(part.points)
            if part.selections is not None:
                known = [part.selections[k] for k in range(len(part.points))]
                known = [chosen[chosen < N - 1] for chosen in known]
            shown = replace(plan, release=part.release)
            one, other = (pair.table(np.array([c])) for c in (True, False))
            expected += densities(shown, part, one, known) - densities(shown, part, other, known)
        assert watch.scores[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("sampling", [All(), Poisson(0.3)], ids=["all", "poisson"])
def test_the_score_with_a_row_absent(sampling):
    plan = plan_of(sampling, "add-or-remove-one")
    pair = make_neighbours(plan, 0.3, "zeros")
    assert pair.others is None
    score_matches(plan, pair)


def test_a_start_that_is_released_is_scored_too():
    moment = Release(SecondMoment(D), N, 0.8)
    plan = plan_of(All(), start=MomentStart(moment, 0.2))
    pair = make_neighbours(plan, 0.3, "inliers")
    seen, watch = [], WhiteBox(pair)
    run(
        plan, rows_for(plan, pair.table(np.array([True]))), seeded_generator(0), witness=seen.append
    )
    watch(seen[0])
    x, y = pair.ones[0], pair.others[0]
    S = seen[0].released * N
    rest = pair.rest / np.linalg.norm(pair.rest, axis=1)[:, None]
    base, sigma = rest.T @ rest, moment.sigma(0)
    expected = math.log(
        block_density(S, base + np.outer(x, x), sigma)
        / block_density(S, base + np.outer(y, y), sigma)
    )
    assert watch.scores[0] == pytest.approx(expected, rel=1e-8)
    assert watch.information[0] == pytest.approx(
        np.sum((np.outer(x, x) - np.outer(y, y)) ** 2) / sigma**2, rel=1e-9
    )


def test_the_likelihood_ratio_has_mean_one_under_the_other_hypothesis():
    """E exp(LLR | coin 0) = 1 for the true densities: the score is not overconfident.

    400 runs; a false alarm (5 standard errors) once in 1e6.
    """
    plan = plan_of(Poisson(0.3), z=2.0, n_iter=10)
    pair = make_neighbours(plan, 0.3, "zeros")
    rows, ratios = rows_for(plan, pair.table(np.array([False]))), []
    for i in range(400):
        watch = WhiteBox(pair)
        run(plan, rows, seeded_generator(i), witness=watch)
        ratios.append(math.exp(watch.scores[0]))
    assert abs(np.mean(ratios) - 1) < 5 * np.std(ratios) / 20
    assert np.std(ratios) > 0.1


def test_fixed_sizes_need_equal_known_rows():
    plan = plan_of(WithoutReplacement(3, N))
    pair = Neighbours(np.random.default_rng(0).normal(size=(N - 1, D)), V0.T, np.eye(D)[1:2])
    with pytest.raises(ValueError, match="equal to each other"):
        run(
            plan,
            rows_for(plan, pair.table(np.array([True]))),
            seeded_generator(0),
            witness=WhiteBox(pair),
        )


@pytest.mark.parametrize("query", [Glad(D, 1), Reaper(D, 1)], ids=lambda q: q.name)
@pytest.mark.parametrize("case", CASES)
def test_a_watched_run_is_the_run(case, query, monkeypatch):
    """Watching changes nothing, and the compiled loops show what the plain one shows."""
    sampling, background = CASES[case]
    plan = plan_of(sampling, query=query)
    rows = rows_for(plan, make_neighbours(plan, 0.3, background).table(np.array([True])))
    seen, again = [], []
    quiet = run(plan, rows, seeded_generator(1))
    watched = run(plan, rows, seeded_generator(1), witness=seen.append)
    assert np.array_equal(quiet.V, watched.V)
    compiled = np.concatenate([part.released for part in seen])
    points = np.concatenate([part.points for part in seen])
    # Stacked draws differ from single ones: hand out the stacked.
    stacked = plan.release.draws(0, 4, N, seeded_generator(1), Ledger())

    def draw(self, k, n_rows, rng, ledger):
        ledger.record(self.event(k))
        return stacked[k]

    monkeypatch.setattr(executors, "_covered", lambda *_: False)
    monkeypatch.setattr(Release, "draw", draw)
    run(plan, rows, seeded_generator(1), witness=again.append)
    assert [part.first for part in again] == [0, 1, 2, 3]
    assert np.concatenate([part.released for part in again]) == pytest.approx(compiled, abs=1e-9)
    assert np.concatenate([part.points for part in again]) == pytest.approx(points, abs=1e-9)
