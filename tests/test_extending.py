"""The page on extending runs as it is written; what must not be registered or fitted is refused."""

import re
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA, extending, register_recipe
from stillspace.audit import check_noise
from stillspace.datasets import make_haystack
from stillspace.exceptions import NotAccountedError
from stillspace.parts.geometry import Polar
from stillspace.parts.noise import IidGaussian, SymmetricGaussian
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.parts.queries.base import Bounded
from stillspace.parts.sampling import All
from stillspace.plans.adaptive import AdaptivePlan, Ask, Outcome
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import MomentStart, RandomStart
from stillspace.recipes import PRIVATE, Facts, make_plan
from stillspace.recipes.paper import glad
from stillspace.rows import STANDARD, Affine, ChosenRows, MemoryRows, Sphere, Summation

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
DATA = make_haystack(600, 6, 2, inlier_noise=0.1, random_state=3)
WORD = "the bounds of query {} are the user's word; a search did not break them"


@pytest.fixture(autouse=True)
def _forget():
    before = set(PRIVATE)
    yield
    for name in set(PRIVATE) - before:
        extending.unregister_recipe(name)


@pytest.fixture
def quick(monkeypatch):
    """A short search, where the search is not what is tested."""
    monkeypatch.setattr(extending, "SEARCHED_SIZES", (8,))
    monkeypatch.setattr(extending, "SEARCHED_POINTS", 1)
    monkeypatch.setattr(extending, "SHAPES", ((7, 2),))


# --- the page --------------------------------------------------------------------------------


def test_the_page_runs_as_it_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 8
    names: dict = {"__name__": "extending_page"}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
    out = capsys.readouterr().out
    assert WORD.format("UnexplainedMoment") in out
    assert "The search broke the bounds of TooGood" in out
    assert "the user's word" in str(names["est"].privacy_)
    assert "two-looks" in PRIVATE
    assert "too-good" not in PRIVATE


# --- a recipe ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Half(Bounded):
    """Half of every row."""

    D: int
    name: ClassVar[str] = "half of the rows"
    norm_bound: ClassVar[float] = 0.5
    difference_bound: ClassVar[float] = 1.0

    @property
    def shape(self):
        return (self.D,)

    def add_block(self, XT, point, out):
        out += 0.5 * XT.sum(axis=1)


@dataclass(frozen=True, slots=True)
class TinyHalf(Half):
    norm_bound: ClassVar[float] = 0.005
    difference_bound: ClassVar[float] = 0.01


@dataclass(frozen=True, slots=True)
class CloseHalf(Half):
    """The bound on a term is right, the one on differences is not."""

    difference_bound: ClassVar[float] = 0.9


@dataclass(frozen=True, slots=True)
class UpperTriangle(Bounded):
    """√2 times the upper triangle: symmetric noise would show it twice."""

    D: int
    name: ClassVar[str] = "upper triangle"
    norm_bound: ClassVar[float] = 1.0
    difference_bound: ClassVar[float] = sqrt(2.0)

    @property
    def shape(self):
        return (self.D, self.D)

    @property
    def noise(self):
        return SymmetricGaussian(self.D)

    def add_block(self, XT, point, out):
        out += sqrt(2.0) * np.triu(XT @ XT.T, 1)


@dataclass(frozen=True)
class QuietNoise(IidGaussian):
    """Less noise than it says."""

    def draws(self, sigma, count, rng):
        return super().draws(sigma / 100, count, rng)


@dataclass(frozen=True, slots=True)
class QuietHalf(Half):
    @property
    def noise(self):
        return QuietNoise(self.shape)


@dataclass(frozen=True, slots=True)
class AnyLength(Half):
    needs_bound: ClassVar[bool] = False


class EveryRow(All):
    """A sampling of one's own."""


class MyStart(RandomStart):
    """A start of one's own."""


@dataclass(frozen=True, slots=True)
class OneLook:
    """A second moment, and a query beside it."""

    D: int
    n_components: int
    query: object
    large: object = None
    """Asked where there are more than 20 columns."""
    through: tuple = ()
    name: ClassVar[str] = "one look"
    n_passes: ClassVar[int] = 1

    @property
    def coordinates(self):
        return 4 * self.D * (self.D + 1)

    def begin(self, allowance):
        return ()

    def ask(self, state):
        if state:
            return None
        query = self.large if self.large is not None and self.D > 20 else self.query
        shares = ((SecondMoment(self.D), 0.5), (query, 0.5))
        return Ask(np.empty((0, 0)), shares, self.through)

    def take(self, state, answers):
        return answers

    def outcome(self, state):
        moment = state[0].value
        return Outcome(np.linalg.eigh(moment)[1][:, -self.n_components :], moment)


def looking(make, large=None, through=()):
    def build(facts, options):
        other = None if large is None else large(facts.D)
        method = OneLook(facts.D, facts.r, make(facts.D), other, through)
        return AdaptivePlan("", method, facts.n, facts.relation, facts.rows_per_person)

    return build


def test_a_registered_recipe_fits_charges_audits_and_says_whose_word_it_is(tmp_path):
    found = register_recipe("half", looking(Half))
    assert {finding.query for finding in found} == {"half of the rows", "second moment"}
    assert all(finding.ok for finding in found)
    assert max(f.term for f in found if f.query == "half of the rows") > 0.99
    budget = Budget(tmp_path / "ledger", 3.0, 1e-5)
    est = PrivateRobustPCA(2, algorithm="half", delta=1e-6, budget=budget, center=None).fit(DATA.X)
    assert WORD.format("Half") in est.privacy_.assumptions
    assert WORD.format("SecondMoment") not in est.privacy_.assumptions
    assert est.privacy_.private
    assert est.privacy_.epsilon <= 1.0
    assert [entry.name for entry in budget.entries()] == ["half"]
    assert check_noise(est.plan_, DATA.X, random_state=0).ok
    other = PrivateRobustPCA(2, center=None).fit(DATA.X)
    assert not any("the user's word" in text for text in other.privacy_.assumptions)


@pytest.mark.parametrize("query", [TinyHalf, CloseHalf, UpperTriangle])
def test_bounds_that_the_search_breaks_are_refused(query):
    with pytest.raises(NotAccountedError, match=f"broke the bounds of {query.__name__}"):
        register_recipe("false", looking(query))
    assert "false" not in PRIVATE


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (looking(QuietHalf), "noise of the query must be one of"),
        (looking(AnyLength), "takes rows of any length"),
        (looking(Half, through=(Affine.of(scale=np.full(7, 1e-3)),)), "bound the length of a row"),
        (
            lambda f, o: Plan(
                "",
                MomentStart(replace(f.release(SecondMoment(f.D)), sampling=EveryRow())),
                None,
                Polar(f.r),
                f.r,
            ),
            "sampling must be one of",
        ),
        (
            lambda f, o: replace(glad(f, o), release=replace(f.release(Glad(f.D, f.r)), z=0.0)),
            "without noise",
        ),
        (lambda f, o: replace(glad(f, o), start=MyStart(f.D, f.r)), "start must be one of"),
        (lambda f, o: replace(looking(Half)(f, o), size=f.n + 1), "is made for"),
        (lambda f, o: replace(looking(Half)(f, o), relation="replace-one"), "is made for"),
        (lambda f, o: make_plan("ptr", replace(f, n=10**5)), "must build a Plan"),
        (lambda f, o: "a plan", "must build a Plan"),
    ],
)
def test_parts_that_decide_on_privacy_are_the_librarys_own(build, words):
    with pytest.raises((ValueError, TypeError, AttributeError), match=words):
        register_recipe("own-parts", build)
    assert "own-parts" not in PRIVATE


@pytest.mark.parametrize("name", ["auto", "dp-ggd", "irls", "", "a name", "ä", 3, "x" * 41])
def test_names_are_free_and_plain(name):
    with pytest.raises(ValueError, match=r"already|letters, digits and hyphens"):
        register_recipe(name, looking(Half))


def test_a_name_is_given_once_and_the_librarys_own_stay(quick):
    register_recipe("half", looking(Half))
    with pytest.raises(ValueError, match="'half' already"):
        register_recipe("half", looking(Half))
    extending.unregister_recipe("half")
    with pytest.raises(ValueError, match="Unknown algorithm 'half'"):
        PrivateRobustPCA(2, algorithm="half", center=None).fit(DATA.X)
    with pytest.raises(ValueError, match="library's own algorithms stay"):
        extending.unregister_recipe("dp-newton")
    with pytest.raises(TypeError, match="options must be a sequence of names"):
        register_recipe("half", looking(Half), options="n_iter")


def test_a_query_that_was_not_searched_is_refused_when_it_is_asked(quick):
    """A method that asks another query on wider tables than those of the search."""
    register_recipe("changing", looking(Half, large=TinyHalf))
    PrivateRobustPCA(2, algorithm="changing", center=None).fit(DATA.X)
    wide = np.random.default_rng(0).standard_normal((400, 24))
    with pytest.raises(NotAccountedError, match="TinyHalf was never asked"):
        PrivateRobustPCA(2, algorithm="changing", center=None).fit(wide)


def test_the_paper_has_no_such_algorithm(quick):
    register_recipe("half", looking(Half))
    with pytest.raises(ValueError, match="The paper has no algorithm 'half'"):
        PrivateRobustPCA(2, algorithm="half", calibration="as-printed", center=None).fit(DATA.X)


def test_a_recipe_of_the_librarys_queries_states_nothing_more(quick):
    register_recipe("my-ggd", glad, options=("n_iter",))
    est = PrivateRobustPCA(2, algorithm="my-ggd", n_iter=5, center=None).fit(DATA.X)
    assert est.n_iter_ == 5
    assert not any("the user's word" in text for text in est.privacy_.assumptions)
    with pytest.raises(ValueError, match="has no option 'schedule'"):
        PrivateRobustPCA(2, algorithm="my-ggd", algorithm_options={"schedule": 1}, center=None).fit(
            DATA.X
        )


# --- rows --------------------------------------------------------------------------------------


class Wrapped:
    """Rows of the user's own, which count how often they are read."""

    def __init__(self, rows, summation=STANDARD, later=None):
        self.rows, self.summation, self.later, self.reads = rows, summation, later, 0

    n_rows = property(lambda self: self.rows.n_rows)
    n_columns = property(lambda self: self.rows.n_columns)
    bounded = property(lambda self: self.rows.bounded)

    def add(self, query, point, selection):
        self.reads += 1
        return self.rows.add(query, point, selection)

    def through(self, row_map):
        self.reads += 1
        return Wrapped(self.rows.through(row_map), self.later or self.summation, self.later)

    def paired(self, pairs):
        self.reads += 1
        return Wrapped(self.rows.paired(pairs), self.later or self.summation, self.later)


LONGER = Summation(STANDARD.job_cells, STANDARD.chain + 1)
SETTINGS = {
    "auto": {},
    "dp-newton, pairs": {"center": "pairs", "summaries": ("variances", "distances")},
    "median": {"center": "median", "radius": 2.0},
    "dp-pca": {"algorithm": "dp-pca", "n_components": "auto"},
    "hidden": {"neighboring_relation": "add-or-remove-one", "public_size": 500},
    "sketch": {"sketch": 5},
    "ptr": {"algorithm": "ptr", "epsilon": 4.0, "delta": 1e-2},
    "scaled": {"center": np.arange(6.0), "scale": np.arange(1.0, 7.0), "missing_code": -9.0},
}


def fits(setting):
    facts = {"n_components": 2, "epsilon": 2.0, "random_state": 7, **SETTINGS[setting]}
    return PrivateRobustPCA(**facts)


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.SeededNoiseWarning")
@pytest.mark.filterwarnings("ignore::stillspace.exceptions.PrivacyWarning")
@pytest.mark.parametrize("setting", SETTINGS)
def test_rows_give_the_bits_of_the_table(setting):
    X = DATA.X
    if setting == "ptr":
        X = make_haystack(6000, 3, 1, inlier_ratio=1.0, inlier_noise=0.0, random_state=0).X
    given = [X, MemoryRows.of(X), Wrapped(MemoryRows.of(X))]
    if setting == "ptr":
        made = [fits(setting).set_params(n_components=1).fit(rows) for rows in given]
    else:
        made = [fits(setting).fit(rows) for rows in given]
    for est in made[1:]:
        np.testing.assert_array_equal(est.components_, made[0].components_)
        np.testing.assert_array_equal(est.center_, made[0].center_)
        assert est.privacy_.event == made[0].privacy_.event
        assert est.n_features_in_ == X.shape[1]
    assert made[1].privacy_.assumptions == made[0].privacy_.assumptions
    added = set(made[2].privacy_.assumptions) - set(made[0].privacy_.assumptions)
    assert added == {"the sums and the row maps of Wrapped are the user's word"}


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.SeededNoiseWarning")
def test_chosen_rows_are_a_table_of_their_own():
    numbers = np.random.default_rng(0).permutation(600)[:300]
    chosen = ChosenRows(MemoryRows.of(DATA.X), numbers)
    facts = {"epsilon": 2.0, "random_state": 1}
    by_rows = PrivatePCA(2, **facts).fit(chosen).components_
    np.testing.assert_array_equal(by_rows, PrivatePCA(2, **facts).fit(DATA.X[numbers]).components_)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda rows: Wrapped(rows, LONGER), NotAccountedError, "longer chains"),
        (lambda rows: Wrapped(rows.through(Sphere())), ValueError, "maps the rows itself"),
        (lambda rows: rows.through(Sphere()), ValueError, "maps the rows itself"),
        (
            lambda rows: rows.through(Affine.of(np.ones(6))),
            ValueError,
            "already centred or scaled",
        ),
        (lambda rows: MemoryRows.of(DATA.X[:, :1]), ValueError, "n_columns of the rows must be"),
        (lambda rows: MemoryRows.of(DATA.X[:1]), ValueError, "n_rows of the rows must be"),
    ],
)
def test_rows_that_no_plan_accounts_for_are_refused_before_the_charge(make, error, words, tmp_path):
    budget = Budget(tmp_path / "ledger", 3.0, 1e-5)
    rows = make(MemoryRows.of(DATA.X))
    for estimator in (PrivateRobustPCA, PrivatePCA):
        with pytest.raises(error, match=words):
            estimator(1, delta=1e-6, budget=budget).fit(rows)
    assert budget.entries() == ()
    assert getattr(rows, "reads", 0) == 0


def test_longer_chains_behind_a_row_map_are_refused_too():
    with pytest.raises(NotAccountedError, match="longer chains"):
        PrivatePCA(2, center=None).fit(Wrapped(MemoryRows.of(DATA.X), later=LONGER))


def test_rows_show_no_cell_and_have_no_names():
    with pytest.raises(ValueError, match="which Rows do not allow"):
        PrivatePCA(2, nonfinite="raise", center=None).fit(MemoryRows.of(DATA.X))
    pandas = pytest.importorskip("pandas")
    est = PrivatePCA(2, center=None).fit(pandas.DataFrame(DATA.X, columns=list("abcdef")))
    assert list(est.feature_names_in_) == list("abcdef")
    est.fit(MemoryRows.of(DATA.X))
    assert not hasattr(est, "feature_names_in_")


def test_only_private_fits_take_rows():
    rows = MemoryRows.of(DATA.X)
    est = PrivatePCA(2, center=None).fit(rows)
    for call in (RobustPCA(2).fit, est.transform, est.inverse_transform):
        with pytest.raises(TypeError, match="MemoryRows are Rows, which only the fit"):
            call(rows)


class Shaped:
    """Neither an array nor Rows."""

    shape = (600, 6)


def test_a_shape_alone_is_no_table_and_costs_nothing(tmp_path):
    budget = Budget(tmp_path / "ledger", 3.0, 1e-5)
    for estimator in (PrivateRobustPCA, PrivatePCA):
        with pytest.raises(TypeError, match=r"X must be an array, .* got a Shaped"):
            estimator(2, delta=1e-6, budget=budget).fit(Shaped())
    assert budget.entries() == ()
    with pytest.raises(TypeError, match=r"X must be an array, .* got a Shaped"):
        RobustPCA(2).fit(Shaped())


def test_a_plan_knows_its_facts(quick):
    register_recipe("half", looking(Half))
    plan = make_plan("half", Facts(n=300, D=5, r=2, epsilon=1.0, delta=1e-6))
    assert (plan.name, plan.size, plan.n_columns) == ("half", 300, 5)
    assert "one look" in plan.in_words()
