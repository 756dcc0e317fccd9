"""Missing cells: NaN sits at the centre in every storage, and one row never touches another."""

from math import isnan

import numpy as np
import pytest
from scipy import sparse

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace._frozen import FrozenArray
from stillspace.datasets import make_haystack
from stillspace.exceptions import AsItIsWarning, SeededNoiseWarning
from stillspace.methods.newton.rule import NEWTON_RULE
from stillspace.metrics import subspace_error
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import Glad, IncompleteRows
from stillspace.recipes.facts import Facts
from stillspace.recipes.fits import plan_fit
from stillspace.rows import (
    Affine,
    Clip,
    Fill,
    MemoryRows,
    Pairs,
    Sketch,
    Sphere,
    Without,
    through_view,
)
from stillspace.run import Views, run


def holed(rng, n=70, D=11, share=0.2):
    X = rng.standard_normal((n, D)) * 3.0 + 1.0
    holes = rng.random(X.shape) < share
    holes[5] = True  # a row without any cell
    return np.where(holes, np.nan, X), holes


def stored(X, kind):
    if kind == "csr":
        return sparse.csr_matrix(X)
    if kind == "columns":
        return np.asfortranarray(X)
    return X.astype(np.float32) if kind == "f32" else X


@pytest.mark.parametrize("kind", ["f64", "f32", "columns", "csr"])
@pytest.mark.parametrize("given", [False, True])
def test_a_missing_cell_sits_at_the_centre(rng, kind, given):
    X, holes = holed(rng)
    D = X.shape[1]
    center = rng.standard_normal(D) if given else None
    scale = np.exp(rng.standard_normal(D)) if given else None
    affine = Affine.of(center, scale, 7.0 if given else None, holes=True)
    A = stored(X, kind)
    cells = np.float32(X).astype(np.float64) if kind == "f32" else X
    want = (cells - (0.0 if center is None else center)) / (1.0 if scale is None else scale)
    want[holes] = 0.0
    got = MemoryRows.of(A).through(affine).sphered()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.concatenate(list(affine.blocks(A))), want, rtol=1e-6, atol=1e-6)
    sphered = MemoryRows.of(A).through(affine).through(Sphere()).sphered()
    assert not sphered[5].any()
    lengths = np.linalg.norm(sphered, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 5), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", ["f64", "f32", "columns", "csr"])
def test_without_holes_the_row_is_a_zero_row_as_before(rng, kind):
    X, holes = holed(rng)
    rows = MemoryRows.of(stored(X, kind)).through(Affine()).through(Sphere()).sphered()
    assert np.array_equal(rows.any(axis=1), ~holes.any(axis=1))


def test_an_infinite_cell_still_makes_a_zero_row(rng):
    X, _ = holed(rng)
    X[7, 2], X[9, 3] = np.inf, -np.inf
    rows = MemoryRows.of(X).through(Affine.of(holes=True)).through(Sphere()).sphered()
    assert not rows[7].any()
    assert not rows[9].any()


def test_differences_with_a_missing_cell_sit_at_zero(rng):
    X, holes = holed(rng)
    pairs = rng.permutation(70).reshape(-1, 2)
    got = MemoryRows.of(X).through(Affine.of(holes=True)).paired(pairs).sphered()
    want = X[pairs[:, 0]] - X[pairs[:, 1]]
    want[holes[pairs[:, 0]] | holes[pairs[:, 1]]] = 0.0
    np.testing.assert_allclose(got, want, rtol=1e-14)


def test_holes_of_one_row_change_no_bit_of_another(rng):
    X, _ = holed(rng)
    Y = X.copy()
    Y[3] = np.nan
    views = [
        (Affine.of(holes=True), Sphere()),
        (Affine.of(np.ones(11), holes=True), Sketch(11, 5, nonzeros=2), Sphere()),
    ]
    for view in views:
        one, two = (through_view(MemoryRows.of(A), view).sphered() for A in (X, Y))
        changed = np.flatnonzero((one != two).any(axis=1))
        assert changed.tolist() in ([3], [])
        assert not two[3].any()


def test_three_percent_of_missing_cells_do_not_erase_the_rows():
    """The table that lost 95 % of its rows: error near that of complete rows, both far below."""
    data = make_haystack(5000, 100, 2, inlier_ratio=1.0, inlier_noise=0.05, random_state=0)
    X = data.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.03] = np.nan
    fit = PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None).fit(X)
    lost = PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None, nonfinite="zero").fit(X)
    error = subspace_error(fit.components_, data.components)
    assert error < 0.005
    assert error < 0.2 * subspace_error(lost.components_, data.components)
    assert np.isfinite(fit.transform(X)).all()
    assert fit.privacy_.private


def haystack_with_holes(seed, share=0.1):
    data = make_haystack(
        2000, 30, 3, inlier_ratio=0.8, inlier_noise=0.1, spherical=False, random_state=seed
    )
    holes = np.random.default_rng(seed).random(data.X.shape) < share
    return data, np.where(holes, np.nan, data.X)


def test_noiseless_inliers_with_missing_cells_are_found_as_exactly_as_complete_ones():
    """Filled once or twice, or with a ridge, they leave d² above 1e-8."""
    data = make_haystack(2000, 30, 3, inlier_ratio=0.8, spherical=False, random_state=0)
    X = np.where(np.random.default_rng(0).random(data.X.shape) < 0.1, np.nan, data.X)
    fit = PrivateRobustPCA(3, epsilon=4.0, center=None, scale=None).fit(X)
    assert subspace_error(fit.components_, data.components) < 1e-12


def test_missing_cells_are_filled_in_private_fits():
    """A tenth of the cells. At the centre they make 6 to 35 times the error of complete rows;
    filled, less than twice in the median of these seeds."""
    errors = []
    for seed in range(3):
        data, X = haystack_with_holes(seed)
        options = {"epsilon": 4.0, "center": None, "scale": None, "random_state": seed}
        with pytest.warns(SeededNoiseWarning):
            fits = [PrivateRobustPCA(3, **options).fit(A) for A in (data.X, X)]
        errors.append([subspace_error(fit.components_, data.components) for fit in fits])
        assert fits[0].privacy_.event == fits[1].privacy_.event
    complete, missing = np.median(errors, axis=0)
    assert missing < 3.0 * complete


def test_rows_with_few_cells_do_not_confirm_the_subspace():
    """A third of the rows has 2 of 30 cells: filled, they would lie on any subspace."""
    data, _ = haystack_with_holes(0)
    X, rng = data.X.copy(), np.random.default_rng(3)
    for i in range(0, 2000, 3):
        X[i, rng.permutation(30)[2:]] = np.nan
    affine = Affine.of(holes=True)
    V = FrozenArray.of(np.linalg.qr(rng.standard_normal((30, 3)))[0])
    plain, filled = (
        through_view(MemoryRows.of(X), view).sphered()
        for view in ((affine, Sphere()), (affine, Fill(V), Sphere()))
    )
    assert np.array_equal(plain, filled)
    view = (affine, Fill(V, weighed=True), Sphere())
    lengths = np.linalg.norm(through_view(MemoryRows.of(X), view).sphered(), axis=1)
    few = np.arange(2000) % 3 == 0
    assert lengths[few].max() < 1e-9
    np.testing.assert_allclose(lengths[~few], 1.0, rtol=1e-12)


def test_rows_are_measured_anew_in_every_run():
    """What a run keeps of mapped rows ends with it: the caller may change the array."""
    data, _ = haystack_with_holes(0)
    X = data.X.copy()
    rows, view = MemoryRows.of(X), (Affine.of(np.zeros(30), holes=True), Sphere())
    plan = plan_fit("dp-newton", Facts(2000, 30, 3, epsilon=1.0, delta=1e-6), {}, view, 30)
    seen = []
    run(plan, rows, seeded_generator(0), witness=seen.append)
    X[0] *= 1e6
    seen.clear()
    run(plan, rows, seeded_generator(0), witness=seen.append)
    bounded = [o for o in seen if not isinstance(o.release.query, IncompleteRows)]
    assert len(bounded) == len(seen) - 1
    for o in bounded:
        assert (np.linalg.norm(o.rows.sphered(), axis=1) <= 1.0 + 1e-12).all()


@pytest.mark.parametrize("components", [3, "auto"])
def test_a_fill_keeps_the_centre_that_a_stage_released(components):
    """A private median: without it, rows of the second phase would lie about zero."""
    _, X = haystack_with_holes(0, share=0.05)
    options = {"center": "median", "radius": 20.0, "scale": None, "epsilon": 8.0}
    fit = PrivateRobustPCA(components, **options).fit(X + 2.0)
    assert np.abs(fit.center_ - 2.0).max() < 1.0
    method = fit.plan_.stages[-1].plan.method
    assert method.affine is not None
    point = np.stack([np.full(30, 2.0), np.full(30, 3.0)])
    told = method.at(point).affine
    assert np.array_equal(told.center.array, point[0])
    assert np.array_equal(told.scale.array, point[1])
    assert told.holes


def observed(X, affine, epsilon=4.0):
    """Return a run's result, its steps, and its counts of rows with missing cells."""
    facts, seen = Facts(2000, 30, 3, epsilon=epsilon, delta=1e-6), []
    plan = plan_fit("dp-newton", facts, {}, (affine, Sphere()), 30)
    result = run(plan, MemoryRows.of(X), seeded_generator(5), witness=seen.append)
    counts = [o for o in seen if isinstance(o.release.query, IncompleteRows)]
    return result, [o for o in seen if isinstance(o.release.query, Glad)], counts


@pytest.mark.parametrize("share", [0.0, 0.002, 0.1])
def test_rows_with_missing_cells_are_counted_before_a_cell_is_filled(share):
    """Seeded; three standard deviations of the noise on the count are 2.5 % of the rows."""
    _, X = haystack_with_holes(0, share)
    rows = np.isnan(X).any(axis=1).mean()
    result, steps, counts = observed(X, Affine.of(np.zeros(30), holes=True))
    (count,) = counts
    sd = count.release.sigma(0) / 2000
    assert abs(float(count.released[0]) - rows) < 4.0 * sd < 0.04
    filled = any(isinstance(m, Fill) for o in steps for m in o.view)
    assert filled == (rows > 0.0)
    assert isnan(result.facts["error_estimate"]) == filled
    assert (
        f"{float(count.released[0]):.0%} of the rows have missing" in result.facts["route"]
    ) == filled


def test_a_run_does_not_keep_the_filled_rows_of_every_step(rng):
    """Each step has another basis, and a number per row."""
    _, X = haystack_with_holes(0)
    views = Views(MemoryRows.of(X), None)
    for _ in range(3):
        V = FrozenArray.of(np.linalg.qr(rng.standard_normal((30, 3)))[0])
        assert views.behind((Affine.of(holes=True), Fill(V, weighed=True), Sphere())).bounded
    assert len(views.kept) == 1


@pytest.mark.parametrize("grouped", [False, True])
def test_later_steps_see_filled_rows(grouped):
    """The basis of a fill is that of its step; rows that are left out stay so."""
    _, X = haystack_with_holes(0, share=0.05)
    if grouped:
        X[:400] = 3.0 * np.eye(30)[7] + 0.05 * np.random.default_rng(2).standard_normal((400, 30))
    affine = Affine.of(np.zeros(30), missing=-9.0, holes=True)
    result, steps, _ = observed(X, affine)
    filled = [o for o in steps if any(isinstance(m, Fill) for m in o.view)]
    assert len(filled) == len(steps) - NEWTON_RULE.cut_from
    assert all(a is b for a, b in zip(steps[-len(filled) :], filled, strict=True))
    kinds = [Without, Affine, Fill, Sphere] if grouped else [Affine, Fill, Sphere]
    assert all(o.whole and [type(m) for m in o.view] == kinds for o in filled)
    assert [type(m) for m in result.view] == kinds
    for o in filled:
        assert o.view[-2].weighed
        assert np.array_equal(o.view[-2].basis.array, o.points[0])
    assert not result.view[-2].weighed  # summaries see rows at their full length
    kept = through_view(MemoryRows.of(X), result.view).sphered().any(axis=1)
    assert kept[400:].mean() > 0.99
    assert kept[:400].mean() == pytest.approx(0.0 if grouped else 1.0, abs=0.02)


@pytest.mark.parametrize(("view", "fills"), [
    ((Affine.of(holes=True), Sphere()), True), ((Affine.of(missing=7.0), Sphere()), True),
    ((Affine(), Sphere()), False), ((Affine.of(missing=0.0, holes=True), Sphere()), False),
    ((Affine.of(holes=True), Pairs(), Sphere()), False),
    ((Affine.of(holes=True), Clip(2.0)), False),
])  # fmt: skip
def test_when_missing_cells_are_filled_is_public(view, fills):
    facts = Facts(2000, 30, 3, epsilon=1.0, delta=1e-6)
    plan = plan_fit("dp-newton", facts, {}, view, 30)
    assert (plan.stages[-1].plan.method.affine is not None) == fills


def test_rows_that_collapse_are_told_as_before():
    """Filled rows have the units that the table has: none were given, and a warning says so."""
    data, _ = haystack_with_holes(0)
    with pytest.warns(AsItIsWarning, match="one direction"):
        PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None).fit(data.X * [1e6, *np.ones(29)])


@pytest.mark.parametrize("groups", ["leave-out", "keep"])
def test_rows_in_units_of_their_own_are_filled_too(groups):
    """Units are released first, to a tenth of the spread; the fill has those of the end."""
    _, X = haystack_with_holes(0, share=0.05)
    units = np.geomspace(1e-3, 1e3, 30)
    fit = PrivateRobustPCA(3, epsilon=8.0, groups=groups).fit((7.0 + X) * units)
    middle = np.nanmedian(X, axis=0)
    assert np.median(np.abs(fit.center_ / units - 7.0 - middle) / np.nanstd(X, axis=0)) < 0.1
    assert np.isfinite(fit.components_).all()


def test_what_nonfinite_may_be():
    X = np.ones((10, 3))
    with pytest.raises(ValueError, match="'center', 'zero', 'raise'"):
        PrivatePCA(1, nonfinite="drop", center=None).fit(X)
