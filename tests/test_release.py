"""A release: what it records, what it draws, what it divides by, and how much noise there is."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from stillspace.exceptions import LedgerError, NotAccountedError
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import (
    GeometricMedian,
    Glad,
    GladCost,
    IrlsPower,
    Reaper,
    SecondMoment,
)
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import ROW_MARGIN, Release
from stillspace.privacy.events import ComposedEvent, GaussianEvent, NonPrivateEvent
from stillspace.rows import STANDARD, MemoryRows
from stillspace.rows.sums import loop_chain_length
from tests.conftest import random_basis, unit_rows

N, D, R = 300, 6, 2
QUERIES = [Glad(D, R), Reaper(D, R), SecondMoment(D), GladCost(D, R), GeometricMedian(D)]
SAMPLINGS = [All(), Poisson(0.1), WithoutReplacement(30, N), WithReplacement(30, N)]


def point_of(query, rng):
    if isinstance(query, GeometricMedian):
        return np.zeros(D)
    V = random_basis(rng, D, R)
    return V @ V.T if isinstance(query, Reaper) else V


@pytest.mark.parametrize(
    ("query", "add", "full"),
    [
        (Glad(D, R), 1, 2),
        (GeometricMedian(D), 1, 2),
        (Reaper(D, R), 1, sqrt(2)),
        (SecondMoment(D), 1, sqrt(2)),
        (GladCost(D, R), 1, 1),
    ],
    ids=lambda v: getattr(v, "name", None),
)
def test_sensitivities_of_the_spec(query, add, full):
    release = Release(query, N, 1.0)
    assert release.sensitivity("add-or-remove-one") == add
    assert release.sensitivity("replace-one") == pytest.approx(full, rel=1e-15)
    assert replace(release, rows_per_person=3).sensitivity() == pytest.approx(3 * full)
    poisson = replace(release, sampling=Poisson(0.1))
    assert poisson.sensitivity("replace-one") == poisson.sensitivity("add-or-remove-one") == 1
    for fixed in (WithoutReplacement(30, N), WithReplacement(30, N)):
        assert replace(release, sampling=fixed).sensitivity() == pytest.approx(full)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.name)
def test_without_noise_it_is_the_mean_of_the_terms_drawn(rng, query, sampling):
    XT, point = unit_rows(rng, N, D), point_of(query, rng)
    release = Release(query, N, 0.0, sampling)
    ledger = Ledger()
    draw = release.draw(0, N, seeded_generator(1), ledger)
    got = release.apply(MemoryRows(XT), point, draw)
    rows = range(N) if draw.selection is None else draw.selection
    want = np.zeros(query.shape)
    for i in rows:
        query.add_block(np.ascontiguousarray(XT[:, [i]]), point, want)
    expected_rows = N if isinstance(sampling, All) else 30
    np.testing.assert_allclose(got, want / expected_rows, atol=1e-12)
    assert isinstance(ledger.events[0], NonPrivateEvent)


def test_the_divisor_is_public_not_the_number_drawn(rng):
    """Poisson batches differ in size; dividing by that size would release it."""
    release = Release(GladCost(D, R), N, 0.0, Poisson(0.1))
    V = random_basis(rng, D, R)
    XT = np.linalg.svd(V, full_matrices=True)[0][:, [-1]] @ np.ones((1, N))  # every cost is 1
    sizes, values = [], []
    for seed in range(40):
        draw = release.draw(0, N, seeded_generator(seed), Ledger())
        sizes.append(len(draw.selection))
        values.append(float(release.apply(MemoryRows(XT), V, draw)))
    assert len(set(sizes)) > 5
    np.testing.assert_allclose(values, np.array(sizes) / 30, rtol=1e-12)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.name)
@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_the_noise_is_as_large_as_the_event_says(rng, query, sampling, relation):
    """Residuals of noisy against noiseless releases with the same selection.

    The sum of squares over σ² is χ²; each of the 40 cases alarms falsely at a rate of 2e-7, and
    noise of half the size is 60 standard deviations away.
    """
    release = Release(query, N, 3.0, sampling, relation)
    XT, point = unit_rows(rng, N, D), point_of(query, rng)
    rows, generator = MemoryRows(XT), seeded_generator(7)
    squares, count = 0.0, 0
    upper = np.triu_indices(D)
    for _ in range(2000 if query.shape == () else 300):
        ledger = Ledger()
        draw = release.draw(0, N, generator, ledger)
        noisy = release.apply(rows, point, draw)
        clean = release.apply(rows, point, replace(draw, noise=None))
        event = ledger.events[0]
        assert isinstance(event, GaussianEvent)
        residual = (noisy - clean) * release.divisor / event.sigma
        if query.shape == (D, D):
            assert np.array_equal(residual, residual.T)
            weights = np.where(np.eye(D), 1.0, sqrt(2.0))
            residual = (residual * weights)[upper]
        squares += float(np.sum(residual**2))
        count += residual.size
    assert event.sigma == pytest.approx(3.0 * release.sensitivity(relation))
    assert 1e-7 < stats.chi2.cdf(squares, count) < 1 - 1e-7


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_what_is_released_lies_on_the_lattice(rng, query):
    release = Release(query, N, 3.0)
    XT, point = unit_rows(rng, N, D), point_of(query, rng)
    draw = release.draw(0, N, seeded_generator(3), Ledger())
    total = release.apply(MemoryRows(XT), point, draw) * release.divisor
    indices = total / query.noise.spacing(draw.sigma)
    np.testing.assert_allclose(indices, np.rint(indices), atol=1e-3)  # × 300 / 300 rounds


def test_slack_counts_lattice_terms_and_summation():
    release = Release(Glad(D, R), N, 3.0)
    event = release.event(0)
    assert isinstance(event, GaussianEvent)
    lattice = Glad(D, R).noise.slack(event.sigma)
    mu = max(STANDARD.chain, loop_chain_length(N)) * 2.0**-53  # all rows fit into one job
    summation, term = 2 * (N * mu / (1 - mu) + 2 * N * 2.0**-53), Glad(D, R).term_error
    more = STANDARD.chain * 2.0**-53 + Glad(D, R).job_error  # before the projection weights count
    weighed = 2 * N * (Glad(D, R).summand_bound * more + 2 * 2.0**-53)
    assert weighed > summation
    assert event.slack == pytest.approx(lattice + weighed + 2 * term, rel=1e-6)
    assert event.slack < 1e-6
    reaper = replace(release, query=Reaper(D, R), rows_per_person=3).event(0)
    assert reaper.slack == pytest.approx(
        Reaper(D, R).noise.slack(reaper.sigma) + summation + 6 * Reaper(D, R).term_error, rel=1e-6
    )
    assert 6 * Reaper(D, R).term_error > 2 * summation  # a residual divided by φ weighs more
    hidden = replace(release, relation="add-or-remove-one")
    assert hidden.rows_bound == ROW_MARGIN * N == 16 * N  # as every such guarantee says


@pytest.mark.parametrize("query", [Glad(D, R), SecondMoment(D)], ids=lambda q: q.name)
def test_slack_counts_all_rows_since_one_row_may_move_others_to_other_jobs(query):
    """All 16 n rows under add-or-remove-one, and all n rows else, in whatever order they stand."""
    n, u = 10**7, 2.0**-53

    def slack(rows, **facts):
        release = Release(query, n, 1.0, **facts)
        return release.event(0).slack, 2 * rows * STANDARD.chain * u * release.asked.summand_bound

    found, least = slack(16 * n, relation="add-or-remove-one")
    assert least < found < 1.2 * least
    found, least = slack(n, sampling=Poisson(0.1))
    assert least < found < 1.2 * least
    found, least = slack(n)
    assert least < found < 1.2 * least


def test_the_summation_slack_holds(rng):
    """Against exact rational sums, for sums that cancel and sums that do not."""
    from fractions import Fraction

    n = 3000
    XT = np.abs(unit_rows(rng, n, 2))
    got = MemoryRows(XT).add(SecondMoment(2), XT, None)
    exact = sum((Fraction(float(x)) ** 2 for x in XT[0]), Fraction(0))
    mu = STANDARD.chain * 2.0**-53
    assert abs(Fraction(float(got[0, 0])) - exact) <= Fraction(n * mu)


def test_one_noise_multiplier_per_iteration():
    release = Release(Glad(D, R), N, (1.0, 4.0))
    assert [release.sigma(k) for k in (0, 1)] == [2.0, 8.0]
    assert release.event(0) != release.event(1)


def test_an_uncalibrated_release_cannot_run():
    release = Release(Glad(D, R), N)
    assert release.noisy
    with pytest.raises(ValueError, match="calibrate the plan"):
        release.draw(0, N, seeded_generator(0), Ledger())


def test_unbounded_terms_take_no_noise():
    with pytest.raises(NotAccountedError, match="no bound"):
        Release(IrlsPower(D, R), N, 1.0)
    event = Release(IrlsPower(D, R), N, 0.0).event(0)
    assert isinstance(event, NonPrivateEvent)


def test_the_ledger_withholds_what_was_not_planned():
    event = Release(Glad(D, R), N, 1.0).event(0)
    ledger = Ledger()
    ledger.record(event)
    assert ledger.check(ComposedEvent.of([event])) == ComposedEvent.of([event])
    for other in ([], [event, event], [Release(Glad(D, R), N, 2.0).event(0)]):
        with pytest.raises(LedgerError, match="withheld"):
            ledger.check(ComposedEvent.of(other))


def test_noise_too_small_for_the_lattice_is_refused():
    with pytest.raises(ValueError, match="lattice"):
        Release(Glad(D, R), 10**6, 1e-9).event(0)


def test_a_release_is_tied_to_the_rows_it_was_planned_for(rng):
    """Ten rows in a plan for ten thousand would all be drawn in every step."""
    with pytest.raises(ValueError, match="from 1000 rows"):
        Release(Glad(D, R), N, 1.0, sampling=WithReplacement(10, 1000))
    release = Release(Glad(D, R), N, 1.0, sampling=WithReplacement(10, N))
    with pytest.raises(ValueError, match="planned for 300"):
        release.draw(0, 10, seeded_generator(0), Ledger())
    hidden = Release(Glad(D, R), N, 1.0, relation="add-or-remove-one")
    assert hidden.draw(0, 10, seeded_generator(0), Ledger()).noise is not None


@pytest.mark.parametrize(
    "query", [q for q in QUERIES if not isinstance(q, SecondMoment)], ids=lambda q: q.name
)
def test_points_of_another_shape_are_refused(query, rng):
    with pytest.raises(ValueError, match="shape"):
        MemoryRows(unit_rows(rng, 4, D)).add(query, np.zeros((D + 1, 1)), None)


@pytest.mark.parametrize("entry", [1e200, np.inf, np.nan])
@pytest.mark.parametrize("query", [Glad(D, R), GladCost(D, R), Reaper(D, R)], ids=lambda q: q.name)
def test_points_at_which_a_term_could_overflow_are_refused(query, entry):
    """One row's infinite term would take all other rows' terms with it."""
    point = np.full((D, D if isinstance(query, Reaper) else R), entry)
    with pytest.raises(ValueError, match="finite and at most"):
        MemoryRows(np.ones((D, 3)) / D).add(query, point, None)


def test_selections_do_not_depend_on_the_width_of_a_generators_words():
    draws = [
        len(Poisson(0.01).draws(10_000, 1, np.random.Generator(make(1)))[0])
        for make in (np.random.MT19937, np.random.PCG64)
    ]
    assert max(draws) < 200


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda s: s.name)
def test_stacked_draws_record_and_draw_as_single_ones(query, sampling):
    release, ledger = Release(query, N, 3.0, sampling), Ledger()
    draws = release.draws(0, 5, N, seeded_generator(1), ledger)
    assert ledger.events == [release.event(0)] * 5
    assert len(draws) == 5
    assert draws.noise.shape == (5, *query.noise.shape)
    for i in range(5):
        assert np.array_equal(draws[i].noise, draws.noise[i])
        assert draws[i].sigma == release.sigma(0)
        assert (draws[i].selection is None) == isinstance(sampling, All)
    one = release.draw(0, N, seeded_generator(1), Ledger())
    first = release.draws(0, 1, N, seeded_generator(1), Ledger())[0]
    assert np.array_equal(one.noise, first.noise)


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.name)
def test_stacked_noise_is_as_large_as_the_event_says(query):
    """χ² of all entries, and of the correlation of successive blocks; alarms below 1e-5 in all."""
    release = Release(query, N, 3.0)
    draws = release.draws(0, 2000, N, seeded_generator(5), Ledger())
    values = draws.noise * query.noise.spacing(release.sigma(0)) / release.sigma(0)
    if query.shape == (D, D):
        assert np.array_equal(values, values.transpose(0, 2, 1))
        values = (values * np.where(np.eye(D), 1.0, sqrt(2.0)))[:, *np.triu_indices(D)]
    values = values.reshape(2000, -1)
    assert 1e-7 < stats.chi2.cdf(np.sum(values**2), values.size) < 1 - 1e-7
    product = np.sum(values[1:] * values[:-1]) / sqrt(values[1:].size)
    assert abs(product) < 5.4


def test_stacked_draws_follow_a_noise_that_varies():
    release, ledger = Release(Glad(D, R), N, (1.0, 1.0, 4.0, 0.0, 2.0)), Ledger()
    draws = release.draws(1, 4, N, seeded_generator(1), ledger)
    assert ledger.events == [release.event(k) for k in (1, 2, 3, 4)]
    assert list(draws.sigmas) == [2.0, 8.0, 0.0, 4.0]
    assert draws[2].noise is None
    assert not draws.noise[2].any()
    for i in (0, 1, 3):
        spread = draws[i].noise.std() * Glad(D, R).noise.spacing(draws[i].sigma)
        assert 0.3 < spread / draws[i].sigma < 2.0
    assert Release(Glad(D, R), N, 0.0).draws(0, 3, N, seeded_generator(1), Ledger()).noise is None


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("query", [Glad(D, R), SecondMoment(D), Glad(D, R, near=2.0**-8)])
@pytest.mark.parametrize("people", [1, 3])
def test_a_release_within_a_share_is_the_release_of_its_fields(query, relation, people):
    """What is kept from before the noise was known must be what the fields alone give."""
    for size in (300, 10**7):
        for mu in (0.05, 0.7):
            free = Release(query, size, relation=relation, rows_per_person=people)
            found = free.within(mu)
            assert isinstance(found.z, float)
            fresh = Release(query, size, found.z, relation=relation, rows_per_person=people)
            assert fresh.event(0) == found.event(0)
            assert (fresh.asked, fresh.rounding) == (found.asked, found.rounding)
            event = fresh.event(0)
            assert isinstance(event, GaussianEvent)
            assert event.squared_mu(relation) <= Fraction(mu) ** 2
            assert event.squared_mu(relation) >= Fraction(mu * (1 - 1e-12)) ** 2
