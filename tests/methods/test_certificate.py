"""The private certificate: its sums, theorem 3 itself, how often it is right, and the fit."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.methods.certificate import CertificateMethod, PrivateCertificate
from stillspace.methods.certificate.method import CUTS
from stillspace.methods.certificate.statement import ANGLES, best_cut
from stillspace.models import load_model, save_model
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import FarMoment, NearCost, NearMoment
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.privacy import mu_from_budget
from stillspace.recipes.fits import SHARES
from stillspace.rows import MemoryRows
from stillspace.run import run
from stillspace.theory import exact_certificate, permeance
from stillspace.theory.stability import alignment_bound
from tests.conftest import random_basis

CERTIFIED = {"summaries": ("certificate",)}
BUDGET = (1.0, 1e-6)


def haystack(n, D, r, share, noise=0.0, seed=0):
    data = make_haystack(n, D, r, inlier_ratio=share, inlier_noise=noise, random_state=seed)
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    return X, data.components.T, data.inliers


def certificate(X, V, mu, seed):
    """The certificate of one run at a given subspace."""
    method = CertificateMethod(*V.shape)
    plan = AdaptivePlan("certificate", method, len(X), mu=mu)
    result = run(plan, MemoryRows.of(X), seeded_generator(seed), point=V)
    return result.facts["certificate"]


def cost(X, V):
    return np.linalg.norm(X - X @ V @ V.T, axis=1).mean()


def turned(rng, V, angles):
    """A subspace with these principal angles to V."""
    D, r = V.shape
    U = np.linalg.qr(np.hstack([V, rng.standard_normal((D, r))]))[0][:, r:]
    turn = np.linalg.qr(rng.standard_normal((r, r)))[0]
    return V @ turn * np.cos(angles) + U * np.sin(angles)


def test_sums_against_plain_numpy(rng):
    D, r, cut = 7, 3, 0.6
    X, V = rng.standard_normal((500, D)), random_basis(rng, D, r)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[:5] = 0.0
    X[5:105] = X[5:105] @ V @ V.T
    rows = MemoryRows(np.ascontiguousarray(X.T))
    distance = np.linalg.norm(X - X @ V @ V.T, axis=1)
    near = distance < cut
    assert 120 < near.sum() < 400
    Y = X[near] @ V
    assert np.allclose(rows.add(NearMoment(D, r, cut), V, None), Y.T @ Y, rtol=1e-12)
    assert rows.add(NearCost(D, r, cut), V, None) == pytest.approx(distance[near].sum() / cut)
    assert np.allclose(rows.add(FarMoment(D, r, cut), V, None), X[~near].T @ X[~near], rtol=1e-12)


@pytest.mark.parametrize(("r", "noise", "off"), [(1, 0.0, 0.02), (2, 0.05, 0.0), (3, 0.02, 0.05)])
def test_theorem_3(rng, r, noise, off):
    """F(V) − F(V̂) ≥ S Σθ − 2κ for every subspace within α; worst directions are tried too."""
    X, L, _ = haystack(400, 8, r, 0.8, noise)
    V = turned(rng, L, np.full(r, off))
    for cut in (0.05, 0.3):
        exact = exact_certificate(X, V.T, cut)
        for angle in ANGLES[::12]:
            S = exact._stability(angle, exact.permeance, 0.0)
            far = X[np.linalg.norm(X - X @ V @ V.T, axis=1) >= cut]
            for _ in range(40):
                angles = angle * rng.uniform(0, 1, r) ** rng.choice([0.1, 3.0])
                W = turned(rng, V, angles)
                gained = cost(X, W) - cost(X, V)
                assert gained >= S * angles.sum() - 2.0 * exact.cost - 1e-12
                Y = far @ W
                R = far - Y @ W.T
                A = np.linalg.norm((R / np.linalg.norm(R, axis=1)[:, None]).T @ Y, 2) / len(X)
                assert exact._alignment(angle, 0.0) + 1e-12 >= A


def test_the_best_subspace_is_within_the_radius():
    X, L, _ = haystack(600, 8, 2, 0.8, 0.03)
    V = turned(np.random.default_rng(1), L, np.array([0.02, 0.04]))
    made = exact_certificate(X, V.T, 0.3)
    said = made.statement()
    assert said.holds
    assert said.radius * made._stability(said.radius, made.permeance, 0.0) >= 2.0 * made.cost
    best = V
    for _ in range(300):
        R = np.linalg.norm(X - X @ best @ best.T, axis=1)
        best = np.linalg.svd((X / np.maximum(R, 1e-9)[:, None]).T @ X)[0][:, :2]
    angles = np.arccos(np.clip(np.linalg.svd(V.T @ best)[1], -1, 1))
    assert 0.01 < angles.sum() <= said.radius < said.angle


def test_noisy_inliers_are_certified():
    """sin α/α ≥ cos α: with cos α the condition fails at every cut from an inlier noise of .065."""
    X, L, _ = haystack(4000, 20, 2, 0.7, 0.1)
    found = [exact_certificate(X, L.T, cut) for cut in CUTS]
    assert any(made.statement().holds for made in found)
    weaker = [
        np.cos(angle) * made.permeance - made._alignment(angle, 0.0) > 2.0 * made.cost / angle
        for made in found
        for angle in ANGLES
    ]
    assert not any(weaker)


def test_near_rows_without_any_distance():
    """Noise may make the sum of distances negative: then the best subspace is the fitted one."""
    X, L, _ = haystack(300, 5, 1, 0.9)
    made = replace(exact_certificate(X, L.T, 0.2), cost=-0.1)
    assert made.statement().holds
    assert made.statement().radius == 0.0


def test_how_often_it_says_holds():
    """200 runs of each table: wrong in at most β, and right in at least half where it should be.

    β = .2 leaves room for error. A wrong "holds" means that the same sums without noise do not
    hold. If the rate of wrong ones were β, 60 of 200 would be seen with probability 4e-4.
    """
    beta, runs = 0.2, 200
    mu = mu_from_budget(*BUDGET) * sqrt(SHARES.certificate)
    said, wrong, settings = [], 0, []
    for D, r, n, share in ((6, 1, 900, 0.5), (6, 2, 1600, 0.7), (6, 2, 1000, 0.45)):
        X, V, inliers = haystack(n, D, r, share)
        true = permeance(X[inliers], r, n) - alignment_bound(X[~inliers]) / n
        moment = X.T @ X / n
        kappa = np.linalg.eigvalsh(moment)[-r] * mu_from_budget(*BUDGET) * n / sqrt(D)
        settings.append((true, kappa))
        exact = {cut: exact_certificate(X, V.T, cut).statement().holds for cut in CUTS}
        found = [certificate(X, V, mu, seed) for seed in range(runs)]
        holds = [c.statement(beta).holds for c in found]
        said.append(np.mean(holds))
        wrong = max(wrong, sum(h and not exact[c.cut] for h, c in zip(holds, found, strict=True)))
    assert all(true >= 0.2 and kappa >= 50 for true, kappa in settings[:2])
    assert settings[2][0] < 0.0
    assert min(said[:2]) >= 0.5
    assert said[2] == 0.0
    assert wrong <= 60


def test_each_bound_holds_as_often_as_it_says():
    """β = .6: each of four bounds fails with probability ≤ .15, and noise has its stated size.

    60 of 200 would be seen with probability below 1e-7 at a rate of .15; the mean square of 200
    normals is outside 1 ± .4 with probability below 1e-4.
    """
    X, V, _ = haystack(800, 6, 2, 0.7, 0.1)
    exact = {cut: exact_certificate(X, V.T, cut) for cut in CUTS}
    found = [certificate(X, V, 0.5, seed) for seed in range(200)]
    pairs = [(c, exact[c.cut]) for c in found]
    off = np.array([(c.cost - e.cost) / c.cost_sd for c, e in pairs])
    trace = np.array([(c.far_share - e.far_share) / (c.far_sd * sqrt(6)) for c, e in pairs])
    assert 0.6 < np.mean(off**2) < 1.4
    assert 0.6 < np.mean(trace**2) < 1.4
    low = [c.statement(0.6).permeance > e.permeance for c, e in pairs]
    high = [c.statement(0.6).alignment < e.statement().alignment for c, e in pairs
            if c.statement(0.6).angle == e.statement().angle]  # fmt: skip
    assert sum(low) < 60
    assert sum(high) < 60
    spread = [(c.permeance - e.permeance) / c.permeance_sd for c, e in pairs]
    assert 0.5 < np.std(spread) < 2.0


def test_a_larger_beta_says_more():
    made = certificate(*haystack(1500, 6, 1, 0.8)[:2], mu=0.1, seed=0)
    levels = (1e-6, 1e-3, 0.05, 0.5)
    assert np.all(np.diff([made.statement(beta).stability for beta in levels]) >= 0.0)
    with pytest.raises(ValueError, match="beta must be"):
        made.statement(0.0)


def test_the_cut_parts_two_kinds_of_rows():
    counts = np.zeros(len(CUTS) + 1)
    counts[3], counts[-2] = 0.6, 0.4
    assert CUTS[3] <= best_cut(counts, 1e-4, CUTS, 20, 2) < CUTS[-2]
    nothing = np.zeros(len(CUTS) + 1)
    assert best_cut(nothing, 1e-4, CUTS, 20, 2) in CUTS


def test_a_fit_with_a_certificate(tmp_path):
    """Of 160 fits (60 of them with less budget) every one said that the condition holds."""
    X = haystack(3000, 6, 1, 0.9)[0]
    est = PrivateRobustPCA(1, epsilon=5.0, center=None, scale=None, **CERTIFIED).fit(X)
    assert est.privacy_.private
    assert est.privacy_.epsilon <= 5.0
    assert "holds with probability at least 0.95" in str(est.certificate_)
    made = est.certificate_
    save_model(est, tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert again.certificate_ == made
    assert PrivateRobustPCA(1).fit(X).certificate_ is None
    stored = made.to_dict()
    for broken in ({"cut": 2.0}, {"far_sd": 0.0}, {"cost": "1"}, {"spreads": []}, {"D": 6.0}):
        with pytest.raises(ValueError, match="certificate"):
            PrivateCertificate.from_dict({**stored, **broken})


def test_fewer_components_than_planned_for(rng):
    X = haystack(3000, 6, 1, 0.9)[0]
    est = PrivateRobustPCA("auto", epsilon=5.0, **CERTIFIED).fit(X)
    assert (est.certificate_.r, est.certificate_.D) == est.components_.shape


def test_where_it_cannot_be_had():
    X = np.random.default_rng(0).standard_normal((300, 5))
    with pytest.raises(ValueError, match="leave norm_bound out"):
        PrivatePCA(2, norm_bound=2.0, **CERTIFIED).fit(X)
    said = PrivatePCA(2, **CERTIFIED).fit(X).certificate_.statement()
    assert not said.holds
    assert said.radius == np.inf
    assert str(said).startswith("Cannot be said")
