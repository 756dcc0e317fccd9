"""The noise of real runs: size, law, independence of steps and of fits, and each fault found."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from stillspace.audit import check_noise
from stillspace.audit import residuals as module
from stillspace.parts.noise import IidGaussian, SymmetricGaussian, seeded_generator
from stillspace.plans.release import JointRelease, Release
from stillspace.recipes import Facts, make_plan

PLANS = {
    "dp-ggd": {"n_iter": 300},
    "dp-sggd": {"n_iter": 300},
    "dp-gd-reap": {"n_iter": 60},
    "dp-smd-reap": {"n_iter": 60},
    "dp-pca": {},
}


def plan_of(name="dp-ggd", D=10):
    return make_plan(name, Facts(400, D, 2, 1.0, 1e-5), **PLANS[name])


@pytest.mark.parametrize("name", PLANS)
def test_the_noise_is_what_the_plan_states(name):
    X = np.random.default_rng(0).standard_normal((400, 10))
    found = check_noise(plan_of(name), X)
    assert found.ok, str(found)
    assert found.interval[0] < found.ratio < found.interval[1]
    assert "No fault was found" in str(found)


def test_it_is_known_to_a_fraction_of_a_percent():
    plan = make_plan("dp-ggd", Facts(400, 20, 2, 1.0, 1e-5), n_iter=1000)
    found = check_noise(plan, random_state=0)
    assert found.residuals == 2 * (1000 * 40 + 210)
    assert found.interval[1] - found.interval[0] < 0.012
    assert found.ratio == pytest.approx(1.0, abs=0.015)


@pytest.mark.parametrize(
    ("factor", "words"), [(0.5, "less noise"), (0.95, "less noise"), (1.06, "more noise")]
)
def test_noise_of_another_size_is_seen(monkeypatch, factor, words):
    real = IidGaussian.draws

    def scaled(self, sigma, count, rng):
        return (real(self, sigma, count, rng) * factor).astype(np.int64)

    monkeypatch.setattr(IidGaussian, "draws", scaled)
    assert words in str(check_noise(plan_of(), random_state=1))


def test_another_law_is_seen(monkeypatch):
    def laplace(self, sigma, count, rng):
        drawn = rng.laplace(0.0, sigma / math.sqrt(2), (count, *self.shape))
        return np.rint(drawn / self.spacing(sigma)).astype(np.int64)

    monkeypatch.setattr(IidGaussian, "draws", laplace)
    assert "not normal" in str(check_noise(plan_of()))


def test_noise_used_twice_within_a_fit_is_seen(monkeypatch):
    real = IidGaussian.draws

    def repeated(self, sigma, count, rng):
        drawn = real(self, sigma, count, rng)
        drawn[1::2] = drawn[: 2 * (count // 2) : 2]
        return drawn

    monkeypatch.setattr(IidGaussian, "draws", repeated)
    assert "one step tells" in str(check_noise(plan_of()))


ADAPTIVE = {"D": 10, "r": 2, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize("n", [400, 4000])
def test_the_noise_of_chosen_releases_is_what_the_plan_states(n):
    plan = make_plan("auto", Facts(n, **ADAPTIVE))
    X = np.random.default_rng(0).standard_normal((n, 10)) * np.geomspace(1.0, 0.1, 10)
    found = check_noise(plan, X)
    assert found.ok, str(found)


@pytest.mark.parametrize("which", [0, 1, -1])
def test_noise_shared_by_two_queries_of_one_pass_is_seen(monkeypatch, which):
    """They have different shapes and scales, and are drawn from a copy of the generator."""

    def draw(self, n_rows, rng, ledger, division=None):
        copies = [rng] * len(self.releases)
        copies[which % len(copies)] = deepcopy(rng)
        return tuple(
            release.draw(0, n_rows, copy, ledger)
            for release, copy in zip(self.releases, copies, strict=True)
        )

    monkeypatch.setattr(JointRelease, "draw", draw)
    plan = make_plan("auto", Facts(4000, **ADAPTIVE))
    X = np.random.default_rng(0).standard_normal((4000, 10)) * np.geomspace(1.0, 0.1, 10)
    told = str(check_noise(plan, X))
    assert "The same noise appears in two places." in told


def test_a_part_of_the_noise_shared_by_steps_of_two_shapes_is_seen(monkeypatch):
    """Half of the variance of every gradient is that of the start's second moment."""
    kept = []
    real = {kind: kind.draws for kind in (IidGaussian, SymmetricGaussian)}

    def start(self, sigma, count, rng):
        drawn = real[SymmetricGaussian](self, sigma, count, rng)
        kept[:] = [self.in_drawn_order(drawn[0]) * self.spacing(sigma) / sigma * math.sqrt(2)]
        return drawn

    def gradient(self, sigma, count, rng):
        own = real[IidGaussian](self, sigma, count, rng)
        shared = kept[0][: self.coordinates].reshape(self.shape) * sigma / self.spacing(sigma)
        return np.rint(math.sqrt(0.5) * (own + shared)).astype(np.int64)

    monkeypatch.setattr(SymmetricGaussian, "draws", start)
    monkeypatch.setattr(IidGaussian, "draws", gradient)
    plan = make_plan("dp-ggd", Facts(400, 60, 4, 1.0, 1e-5), n_iter=1)
    told = str(check_noise(plan, fits=2))
    assert "one step tells" in told


@pytest.mark.parametrize("count", [1000, 100_000, 2**20])
def test_equal_residuals_of_independent_noise_are_as_rare_as_stated(count, rng):
    """False alarm rate of this test: 2e-6; the seed is fixed."""
    values = np.rint(rng.standard_normal(count) * 2.0**30) / 2.0**30
    assert module._used_twice(values, 1e-6) == []
    # Twenty or, of many, about one in two hundred normals that appear again, with any sign.
    again = max(20, count // 200)
    values[-again:] = -values[:again]
    assert module._used_twice(values, 1e-6) != []


def test_noise_used_in_two_fits_is_seen(monkeypatch):
    monkeypatch.setattr(module, "secure_generator", lambda: seeded_generator(7))
    assert "one fit tells" in str(check_noise(plan_of()))


def test_a_wrong_sum_is_seen(monkeypatch):
    """The divisor of the batch that was drawn, instead of the public one."""
    real = Release.apply

    def drawn(self, rows, point, draw):
        found = real(self, rows, point, draw)
        return found if draw.selection is None else found * self.divisor / len(draw.selection)

    monkeypatch.setattr(Release, "apply", drawn)
    monkeypatch.setattr("stillspace.run.executors._covered", lambda *_: False)
    assert not check_noise(plan_of("dp-sggd")).ok


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="no noise to measure"):
        check_noise(make_plan("ggd", Facts(50, 4, 1), n_iter=3))
    with pytest.raises(ValueError, match="at least 2"):
        check_noise(plan_of(), fits=1)
    bare = replace(plan_of(), release=None, n_iter=0)
    assert check_noise(bare).residuals == 2 * 55
