"""Plans of every kind, with rows that they run on: what the tests of the contract go through."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from stillspace.methods.certificate import CertificateMethod
from stillspace.methods.median import PrivateMedian
from stillspace.methods.pair_lengths import PairLengths
from stillspace.parts.queries import DistanceCounts, ScoreSquares
from stillspace.parts.sampling import All
from stillspace.plans.adaptive import AdaptivePlan
from stillspace.plans.fixed import Reading
from stillspace.plans.protocol import AnyPlan
from stillspace.recipes import PRIVATE, Facts, draft_plan
from stillspace.recipes.fits import EDGES, Standardised, plan_fit
from stillspace.rows import Affine, Clip, Pairs, Sketch, Sphere
from tests.test_pair_cut import far

BUDGET = (4.0, 1e-5)
FACTS = Facts(400, 6, 2, *BUDGET)
VOTED = Facts(3000, 4, 1, *BUDGET)
WIDE = replace(FACTS, n=300, D=160)
BOTH = ("variances", "distances")
STEPS = {name: {"n_iter": 5} for name in PRIVATE if "gd" in name or "reap" in name}


@dataclass(frozen=True, eq=False)
class Kind:
    """How a plan is made from facts, the facts, and what is known of it."""

    make: Callable[[Facts], AnyPlan]
    """Returns a plan that need not be calibrated."""
    facts: Facts = FACTS
    columns: int = 6
    paired: bool = False
    n_components: int = 2
    at_point: bool = False
    shared: bool = True
    """Whether it takes a share of a fit (`within`)."""
    X: np.ndarray | None = None

    @cached_property
    def plan(self) -> AnyPlan:
        return self.calibrated(self.facts)

    def calibrated(self, facts: Facts) -> AnyPlan:
        return self.make(facts).calibrate(facts.epsilon, facts.delta)

    @property
    def rows(self) -> np.ndarray:
        return _rows(self.facts.n * (1 + self.paired), self.columns) if self.X is None else self.X

    @property
    def point(self) -> np.ndarray | None:
        return np.eye(self.facts.D)[:, : self.facts.r] if self.at_point else None


@cache
def _rows(n: int, D: int) -> np.ndarray:
    """Rows on a subspace (all but exactly), away from the origin."""
    rng = np.random.default_rng(n + D)
    r = 1 if n == VOTED.n else 2
    X = rng.standard_normal((n, r)) @ np.eye(D)[:r] + 1e-9 * rng.standard_normal((n, D))
    return X + (0.0 if r == 1 else 0.7)


def _groups() -> np.ndarray:
    """Rows near a subspace, and a tight group of outliers that the default leaves out."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((GROUPED.n, 6)) * [1.0, 1.0, 0.02, 0.02, 0.02, 0.02]
    outliers = rng.random(GROUPED.n) < 0.25
    X[outliers] = 0.02 * X[outliers] + [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    return X


def _recipe(name: str) -> Callable[[Facts], AnyPlan]:
    return lambda facts: draft_plan(name, facts, **STEPS.get(name, {}))


def _fit(name: str, view: tuple, columns: int = 6, **stages) -> Callable[[Facts], AnyPlan]:
    return lambda facts: plan_fit(name, facts, STEPS.get(name, {}), view, columns, **stages)


def _adaptive(method) -> Callable[[Facts], AnyPlan]:
    return lambda facts: AdaptivePlan(
        "method", method, facts.n, facts.relation, facts.rows_per_person
    )


def _loops(name: str) -> bool:
    return name not in ("auto", "dp-newton", "dp-pca")


CENTRED = (Affine(), Sphere())
PAIRED = (Affine(), Pairs(), Sphere())
SKETCHED = (Affine.of(None, np.full(40, 2.0)), Pairs(), Sketch(40, 6, nonzeros=2), Sphere())
HIDDEN = replace(FACTS, relation="add-or-remove-one")
FAR = far(n=1200, D=6, distance=8.0)[0]
GROUPED = replace(FACTS, n=2000, epsilon=9.0)
GROUPS = _groups()
VOTE = {"facts": VOTED, "columns": 4, "n_components": 1, "shared": False}

KINDS: dict[str, Kind] = {
    "reading, variances": Kind(
        lambda f: Reading("variances", f.release(ScoreSquares(f.D, f.r))),
        n_components=0,
        at_point=True,
    ),
    "reading, distances, hidden": Kind(
        lambda f: Reading("distances", f.release(DistanceCounts(f.D, f.r, EDGES))),
        HIDDEN,
        n_components=0,
        at_point=True,
    ),
    "median": Kind(_adaptive(PrivateMedian(6)), n_components=0),
    "certificate": Kind(_adaptive(CertificateMethod(6, 2)), n_components=0, at_point=True),
    "lengths": Kind(_adaptive(PairLengths(6, 2)), n_components=0),
    "dp-pca, three rows": Kind(_recipe("dp-pca"), replace(FACTS, rows_per_person=3)),
    "auto, hidden": Kind(_recipe("auto"), HIDDEN),
    **{
        name: Kind(_recipe(name), **(VOTE if name == "ptr" else {"shared": not _loops(name)}))
        for name in PRIVATE
    },
    **{
        f"fit of {name}": Kind(
            _fit(name, CENTRED, 4 if name == "ptr" else 6),
            **(VOTE if name == "ptr" else {"shared": not _loops(name)}),
        )
        for name in PRIVATE
    },
    "fit, median, summaries": Kind(_fit("auto", CENTRED, radius=3.0, summaries=BOTH)),
    "fit, median, hidden": Kind(
        _fit("dp-pca", CENTRED, radius=3.0, summaries=("variances",)), HIDDEN
    ),
    "fit, summaries, three rows": Kind(
        _fit("auto", CENTRED, summaries=BOTH), replace(FACTS, rows_per_person=3)
    ),
    "fit, pairs, cut": Kind(
        _fit("auto", PAIRED, cut_pairs=True, summaries=BOTH),
        replace(FACTS, n=600, epsilon=9.0),
        paired=True,
        X=FAR,
    ),
    "fit, pairs, sampled": Kind(
        _fit("dp-sggd", PAIRED, cut_pairs=True, summaries=("variances",)),
        paired=True,
        shared=False,
    ),
    "fit, narrowed": Kind(
        _fit("auto", (Affine(), Sphere()), 160, narrowed=40, summaries=("variances",)),
        WIDE,
        columns=160,
    ),
    "fit, sketch of pairs": Kind(
        _fit("dp-pca", SKETCHED, 40),
        columns=40,
        paired=True,
    ),
    "fit, given centre": Kind(
        _fit("dp-ggd", (Affine.of(np.full(6, 0.7)), Sphere()), summaries=BOTH), shared=False
    ),
    "fit, standardised": Kind(
        _fit("auto", CENTRED, standardised=Standardised(True, True), summaries=BOTH)
    ),
    "fit, standardised, hidden": Kind(
        _fit("dp-pca", CENTRED, standardised=Standardised(False, True)), HIDDEN
    ),
    "fit, groups left out": Kind(
        _fit("auto", (Affine(), Sphere()), summaries=("variances",)), GROUPED, X=GROUPS
    ),
    "fit, certificate": Kind(_fit("auto", CENTRED, summaries=("certificate", *BOTH))),
    "fit, pictures": Kind(_fit("auto", CENTRED, summaries=("scores", "scree"))),
    "fit, pictures, hidden": Kind(
        _fit("dp-pca", (Affine(), Clip(2.0)), summaries=("scores", "scree")), HIDDEN
    ),
    "fit, r chosen": Kind(
        _fit("auto", CENTRED, summaries=BOTH), replace(FACTS, r=4, choose_components=True),
        n_components=4,
    ),
}  # fmt: skip

STAGED = [name for name in KINDS if name.startswith("fit")]
TESTED = ("ptr", "fit of ptr")
ADAPTIVE = ("median", "certificate", "lengths", "auto", "dp-newton", "auto, hidden")
"""Methods outside of a fit, whose ledger is a ceiling."""


def other_facts(kind: Kind) -> list[Facts]:
    """The facts of a kind with one of them changed."""
    f = kind.facts
    changed = [replace(f, n=f.n + 2), replace(f, epsilon=f.epsilon + 1.0), replace(f, delta=1e-6)]
    if all(type(release.sampling) is All for release in kind.plan.releases()) and f != VOTED:
        changed.append(replace(f, rows_per_person=f.rows_per_person + 1))
    return changed
