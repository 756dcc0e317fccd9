"""The cache of calibrations: it saves the search, and never answers for another plan."""

import math
import threading
import weakref
from dataclasses import replace

import pytest

from stillspace.privacy import ComposedEvent, GaussianEvent, calibrate, privacy_curve
from stillspace.privacy import calibration as module
from stillspace.recipes import make_plan
from stillspace.recipes.facts import Facts

REPLACE, ADD = "replace-one", "add-or-remove-one"
BASE = GaussianEvent(1.0, 1.0, 2.0, coordinates=40, sampler_error=2.0**-128)
POISSON = replace(BASE, sampling="poisson", rate=0.01)
FIXED = replace(BASE, sampling="without-replacement", batch_size=20, population=2000)


@pytest.fixture(autouse=True)
def _empty_cache():
    module._ANSWERS.clear()


def family(single, steps=50, beside=()):
    """All of `single`'s noise is the scale; `beside` does not depend on it."""
    return lambda z: ComposedEvent(((replace(single, sigma=z), steps), *beside))


def searches(monkeypatch):
    """Count the searches that the cache did not save."""
    counted = []
    search = module._smallest_scale

    def counting(*arguments):
        counted.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(module, "_smallest_scale", counting)
    return counted


@pytest.mark.parametrize("single", [BASE, POISSON, FIXED], ids=["all", "poisson", "fixed"])
def test_the_second_calibration_is_the_first_one_to_the_bit(single, monkeypatch):
    counted = searches(monkeypatch)
    first = calibrate(family(single), REPLACE, 1.0, 1e-6)
    second = calibrate(family(single), REPLACE, 1.0, 1e-6)
    assert first == second
    assert len(counted) == 1


PLANS = {
    "the same": (family(POISSON), REPLACE, 1.0, 1e-6),
    "relation": (family(POISSON), ADD, 1.0, 1e-6),
    "epsilon": (family(POISSON), REPLACE, math.nextafter(1.0, 2), 1e-6),
    "delta": (family(POISSON), REPLACE, 1.0, math.nextafter(1e-6, 1)),
    "steps": (family(POISSON, 51), REPLACE, 1.0, 1e-6),
    "beside": (family(POISSON, 50, ((replace(BASE, sigma=10.0), 1),)), REPLACE, 1.0, 1e-6),
    "beside with more noise": (
        family(POISSON, 50, ((replace(BASE, sigma=20.0), 1),)), REPLACE, 1.0, 1e-6,
    ),
    **{
        name: (family(replace(single, **{name: value})), REPLACE, 1.0, 1e-6)
        for single, name, value in [
            (POISSON, "norm_bound", 1.5),
            (POISSON, "difference_bound", 1.5),
            (POISSON, "slack", 1e-9),
            (POISSON, "rate", 0.011),
            (POISSON, "coordinates", 41),
            (POISSON, "sampler_error", 2.0**-127),
            (FIXED, "batch_size", 21),
            (FIXED, "population", 2001),
            (FIXED, "sampling", "with-replacement"),
            (BASE, "rows_per_person", 2),
            (BASE, "ceiling", True),
        ]
    },
}  # fmt: skip


def test_every_fact_that_the_result_depends_on_is_in_the_key(monkeypatch):
    """18 problems, any two of which differ in one fact: 18 searches, each result of its own."""
    alone = {}
    for name, problem in PLANS.items():
        module._ANSWERS.clear()
        alone[name] = calibrate(*problem)
    module._ANSWERS.clear()
    counted = searches(monkeypatch)
    for _ in range(2):
        for name, problem in PLANS.items():
            assert calibrate(*problem) == alone[name], name
    assert len(counted) == len(PLANS)


def test_families_that_agree_at_scale_one_only_do_not_share_an_answer(monkeypatch):
    """The key alone would confuse them: σ = z and σ = z² are the same event at z = 1."""
    counted = searches(monkeypatch)
    plain = calibrate(family(BASE), REPLACE, 1.0, 1e-6)
    squared = calibrate(lambda z: family(BASE)(z * z), REPLACE, 1.0, 1e-6)
    assert squared == pytest.approx(math.sqrt(plain), rel=1e-12)
    assert len(counted) == 2


def test_an_answer_is_shared_only_where_it_was_checked(monkeypatch):
    """Two families that also agree at the answer: its promise holds for both, and is tight."""
    first = calibrate(family(BASE), REPLACE, 1.0, 1e-6)

    def other(z):
        """As `family(BASE)` at 1 and at the answer, steeper between and beyond."""
        bend = 1 + 0.1 * math.log(z) * math.log(z / first) / (1 + math.log(z) ** 2)
        return family(BASE)(z * bend)

    counted = searches(monkeypatch)
    second = calibrate(other, REPLACE, 1.0, 1e-6)
    assert second == first
    assert counted == []
    assert privacy_curve(other(second), REPLACE).get_delta(1.0) <= 1e-6
    assert privacy_curve(other(second * (1 - 1e-9)), REPLACE).get_delta(1.0) > 1e-6


def test_the_cache_is_bounded_and_keeps_no_plan_alive():
    class Held:
        def __init__(self, single):
            self.single = single

        def event(self, z):
            return family(self.single)(z)

    held = Held(BASE)
    gone = weakref.ref(held)
    calibrate(held.event, REPLACE, 1.0, 1e-6)
    del held
    assert gone() is None
    for i in range(200):
        calibrate(family(BASE, 1 + i), REPLACE, 1.0, 1e-6)
    assert 0 < len(module._ANSWERS) <= 64


def test_a_budget_that_cannot_be_kept_is_refused_again():
    spent = family(POISSON, 50, ((replace(BASE, sigma=0.01), 1),))
    for _ in range(2):
        with pytest.raises(ValueError, match="no noise scale satisfies epsilon=1"):
            calibrate(spent, REPLACE, 1.0, 1e-6)


def test_threads_get_the_answers_of_one():
    problems = [(family(BASE, 1 + i % 5), REPLACE, 1.0 + i % 3, 1e-6) for i in range(30)]
    alone = [calibrate(*problem) for problem in problems]
    module._ANSWERS.clear()
    found: dict[tuple[int, int], float] = {}

    def work(number):
        for i, problem in enumerate(problems):
            found[number, i] = calibrate(*problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(k, i): alone[i] for k in range(8) for i in range(30)}


def all_plans(before_each):
    """Return one calibrated plan per private algorithm and set of public facts."""
    base = Facts(n=2000, D=12, r=2, epsilon=1.0, delta=1e-6)
    changes = [{}, {"n": 2001}, {"D": 13}, {"r": 3}, {"epsilon": 1.1}, {"delta": 2e-6}]
    made = []
    for algorithm in ("auto", "dp-ggd", "dp-sggd", "dp-gd-reap", "dp-sgd-reap", "dp-md-reap"):
        for change in changes:
            before_each()
            made.append(make_plan(algorithm, replace(base, **change)))
    return made


def test_recipes_make_the_same_plans_with_a_warm_cache():
    cold = all_plans(module._ANSWERS.clear)
    all_plans(lambda: None)
    assert all_plans(lambda: None) == cold
    assert len(set(cold)) == len(cold) == 36
