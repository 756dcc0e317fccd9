import math

import pytest

from stillspace.exceptions import NotAccountedError
from stillspace.privacy import (
    ComposedEvent,
    GaussianCurve,
    GaussianEvent,
    NonPrivateEvent,
    calibrate,
    check_sampler,
    mu_from_budget,
    privacy_curve,
)
from stillspace.privacy.accounting import SampledNoiseCurve

ADD, REPLACE = "add-or-remove-one", "replace-one"
N = T = 2000
B = 20
SAMPLINGS = {
    "all": {},
    "poisson": {"sampling": "poisson", "rate": B / N},
    "without": {"sampling": "without-replacement", "batch_size": B, "population": N},
    "with": {"sampling": "with-replacement", "batch_size": B, "population": N},
}


def loop(sampling, sigma, steps=T, difference=2.0, **other):
    event = GaussianEvent(sigma, 1.0, difference, **SAMPLINGS[sampling], **other)
    return ComposedEvent(((event, steps),))


@pytest.mark.parametrize(
    ("sampling", "relation", "at_root_n", "at_1e5"),
    [
        ("all", ADD, 0.0421, 0.1023),
        ("all", REPLACE, 0.0842, 0.2045),
        ("poisson", ADD, 0.0537, 0.1099),
        ("poisson", REPLACE, 0.0848, 0.2045),
        ("without", REPLACE, 0.1245, 0.2446),
        ("with", REPLACE, 0.1264, 0.2465),
    ],
)
def test_the_figures_of_the_specification(sampling, relation, at_root_n, at_1e5):
    """σ on the mean gradient at ε = 0.8, n = T = 2000, B = 20 (SPEC 9.3)."""
    for delta, figure in ((1 / math.sqrt(N), at_root_n), (1e-5, at_1e5)):
        sigma = calibrate(lambda s: loop(sampling, s), relation, 0.8, delta)
        assert sigma / (N if sampling == "all" else B) == pytest.approx(figure, rel=1e-3)
        assert privacy_curve(loop(sampling, sigma), relation).get_delta(0.8) <= delta
        less = sigma * (1 - 3e-4 if sampling != "all" else 1 - 1e-9)
        assert privacy_curve(loop(sampling, less), relation).get_delta(0.8) > delta


@pytest.mark.parametrize(("difference", "epsilon"), [(2.0, 4.377), (math.sqrt(2), 2.943)])
def test_one_exact_release(difference, epsilon):
    curve = privacy_curve(loop("all", 2.0, 1, difference), REPLACE)
    assert curve.name == "exact Gaussian"
    assert curve.get_epsilon(1e-5) == pytest.approx(epsilon, abs=1e-3)


def test_full_batch_adds_squares_and_counts_the_start():
    start = ComposedEvent(((GaussianEvent(30.0, 1.0, math.sqrt(2)), 1),))
    curve = privacy_curve(start + loop("all", 100.0, 50), REPLACE)
    assert isinstance(curve, GaussianCurve)
    assert curve.mu == pytest.approx(math.sqrt(2 / 900 + 50 * 4 / 1e4), rel=1e-12)
    assert curve.mu >= math.sqrt(2 / 900 + 50 * 4 / 1e4)


def test_rows_per_person_multiplies_the_sensitivity():
    one, three = (
        privacy_curve(loop("all", s, rows_per_person=k), ADD) for s, k in ((1, 1), (3, 3))
    )
    assert one.get_delta(1.0) == pytest.approx(three.get_delta(1.0), rel=1e-9)


def test_slack_is_paid_for():
    without, with_slack = loop("all", 100.0), loop("all", 100.0, slack=0.5)
    assert privacy_curve(with_slack, REPLACE).get_epsilon(1e-5) > 1.2 * privacy_curve(
        without, REPLACE
    ).get_epsilon(1e-5)


def test_nothing_costs_nothing():
    for event in (ComposedEvent(), ComposedEvent(((GaussianEvent(1.0, 0.0, 0.0), 5),))):
        assert privacy_curve(event, REPLACE).get_epsilon(0.0) == 0
    never = GaussianEvent(1.0, 1.0, 2.0, sampling="poisson", rate=0.0)
    assert privacy_curve(ComposedEvent(((never, 5),)), ADD).get_delta(0.0) == 0


@pytest.mark.parametrize(
    "event",
    [
        ComposedEvent(((NonPrivateEvent("PCA start"), 1), (GaussianEvent(9.0, 1.0, 2.0), 3))),
        loop("all", 0.0),
        loop("poisson", 0.0),
        loop("with", 1e-9),
    ],
)
def test_no_noise_no_privacy(event):
    curve = privacy_curve(event, REPLACE)
    assert curve.get_delta(100.0) == 1
    assert curve.get_epsilon(0.5) == math.inf
    assert curve.get_epsilon(1.0) == 0


@pytest.mark.parametrize("sampling", ["without", "with"])
def test_fixed_size_under_add_or_remove_is_refused_with_a_remedy(sampling):
    with pytest.raises(NotAccountedError, match=r"replacement.*use Poisson"):
        privacy_curve(loop(sampling, 1.0), ADD)


@pytest.mark.parametrize("sampling", ["poisson", "without", "with"])
def test_several_rows_of_a_person_with_sampling_are_refused(sampling):
    with pytest.raises(NotAccountedError, match=r"rows_per_person=2.*reads all rows"):
        privacy_curve(loop(sampling, 1.0, rows_per_person=2), REPLACE)


def test_unknown_relation():
    with pytest.raises(ValueError, match="neighboring_relation"):
        privacy_curve(loop("all", 1.0), "zero-out")
    with pytest.raises(ValueError, match="neighboring_relation"):
        calibrate(lambda s: loop("all", s), "zero-out", 1.0, 1e-5)


def test_sampler_error_enters_delta():
    noisy = {"coordinates": 40, "sampler_error": 1e-15}
    curve = privacy_curve(loop("all", 200.0, **noisy), REPLACE)
    ideal = privacy_curve(loop("all", 200.0, **noisy), REPLACE, ideal_sampler=True)
    error = 40 * T * 1e-15
    expected = ideal.get_delta(0.8) + (1 + math.exp(0.8)) * error
    assert curve.get_delta(0.8) == pytest.approx(expected, rel=1e-12)
    assert curve.get_delta(0.8) > ideal.get_delta(0.8)
    epsilon = curve.get_epsilon(1e-8)
    assert curve.get_delta(epsilon) <= 1e-8
    assert curve.get_delta(epsilon * (1 - 1e-6)) > 1e-8
    assert epsilon > ideal.get_epsilon(1e-8)
    # At an ε where e^ε τ > δ there is no guarantee at all.
    assert curve.get_epsilon(1e-11) == math.inf
    assert curve.get_delta(800.0) == 1


def test_sampler_error_when_epsilon_is_beyond_it():
    curve = SampledNoiseCurve(GaussianCurve(50.0), 1e-16)
    assert curve.get_epsilon(1e-6) == math.inf


def test_calibration_pays_for_the_sampler():
    noisy = {"coordinates": 40, "sampler_error": 1e-14}
    exact = calibrate(lambda s: loop("all", s), REPLACE, 0.8, 1e-5)
    paid = calibrate(lambda s: loop("all", s, **noisy), REPLACE, 0.8, 1e-5)
    assert exact < paid < exact * 1.001
    assert privacy_curve(loop("all", paid, **noisy), REPLACE).get_delta(0.8) <= 1e-5


def test_a_poor_sampler_is_refused_with_value_limit_and_remedy():
    poor = {"coordinates": 40, "sampler_error": 5.6e-9}
    with pytest.raises(NotAccountedError, match=r"0\.00145.*1e-08.*fewer columns"):
        calibrate(lambda s: loop("all", s, **poor), REPLACE, 0.8, 1e-5)
    with pytest.raises(NotAccountedError, match="sampler"):
        check_sampler(loop("all", 1.0, coordinates=1, sampler_error=2.0**-50), 800.0, 1e-5)
    check_sampler(loop("all", 1.0), 800.0, 1e-5)


@pytest.mark.parametrize("sampling", ["all", "poisson", "without"])
def test_calibration_around_a_fixed_start(sampling):
    mu = mu_from_budget(1.0, 1e-6)
    start = ComposedEvent(((GaussianEvent(2.0 / (math.sqrt(0.2) * mu), 1.0, 2.0), 1),))

    def make(sigma):
        return start + loop(sampling, sigma, 200)

    sigma = calibrate(make, REPLACE, 1.0, 1e-6)
    assert privacy_curve(make(sigma), REPLACE).get_delta(1.0) <= 1e-6
    assert privacy_curve(make(sigma * 0.999), REPLACE).get_delta(1.0) > 1e-6
    assert sigma > calibrate(lambda s: loop(sampling, s, 200), REPLACE, 1.0, 1e-6)
    if sampling == "all":
        assert sigma == pytest.approx(2 * math.sqrt(200 / 0.8) / mu, rel=1e-9)


@pytest.mark.parametrize("sampling", ["all", "poisson"])
def test_a_start_that_uses_everything(sampling):
    start = ComposedEvent(((GaussianEvent(2.0, 1.0, 2.0), 1),))
    with pytest.raises(ValueError, match="smaller share"):
        calibrate(lambda s: start + loop(sampling, s, 10), REPLACE, 1.0, 1e-6)


def test_calibration_of_something_that_cannot_be_private():
    spy = ComposedEvent(((NonPrivateEvent("looks at the median"), 1),))
    with pytest.raises(NotAccountedError, match="looks at the median"):
        calibrate(lambda s: spy + loop("all", s), REPLACE, 1.0, 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(-1.0, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (1.0, 0.0), (1.0, 1.0), (1.0, math.nan)],
)
def test_bad_budgets(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        calibrate(lambda s: loop("all", s), REPLACE, epsilon, delta)


@pytest.mark.parametrize("sampling", ["all", "poisson", "without", "with"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (5.0, 1e-3), (30.0, 1e-6)])
def test_calibration_over_a_wide_range(sampling, epsilon, delta):
    sigma = calibrate(lambda s: loop(sampling, s, 100), REPLACE, epsilon, delta)
    assert privacy_curve(loop(sampling, sigma, 100), REPLACE).get_delta(epsilon) <= delta
    assert privacy_curve(loop(sampling, 0.999 * sigma, 100), REPLACE).get_delta(epsilon) > delta


def test_scale_of_the_argument_does_not_matter():
    z = calibrate(lambda z: loop("poisson", 1e6 * z), ADD, 0.8, 1e-5)
    sigma = calibrate(lambda s: loop("poisson", s), ADD, 0.8, 1e-5)
    assert 1e6 * z == pytest.approx(sigma, rel=2e-4)
