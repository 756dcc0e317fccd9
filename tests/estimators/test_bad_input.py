"""Bad input gets one clear sentence, shows no record and changes nothing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace import recipes as recipes_module
from stillspace._checks import described
from stillspace.audit import audit, make_neighbours, search_sensitivity
from stillspace.datasets import make_haystack
from stillspace.prediction import predict
from stillspace.privacy import GaussianEvent
from stillspace.recipes import Facts, make_plan
from stillspace.theory import iteration_bound

SECRET = 918273.645
X = make_haystack(60, 5, 2, random_state=0).X
X[3, 2] = SECRET
ESTIMATORS = [RobustPCA, PrivateRobustPCA, PrivatePCA]
PRIVATE = [PrivateRobustPCA, PrivatePCA]


def with_text():
    A = X.astype(object)
    A[5, 1] = "918273.645 Elm Street"
    return A


def with_objects():
    A = X.astype(object)
    A[5, 1] = {"name": SECRET}
    return A


def with_durations():
    A = X.astype(object)
    A[5, 1] = np.timedelta64(918273, "ns")  # float() would read it as a number
    return A


MASKED = np.ma.masked_greater(X, 1e5)
DATES = X.astype("M8[s]")
FRAME = pd.DataFrame(X)
FRAME[1] = pd.to_datetime(FRAME[1])

BAD_X = {
    "1-d": (X[3], "2-d"),
    "3-d": (X[None], "2-d"),
    "no rows": (X[:0], "minimum of 2"),
    "one row": (X[3:4], "minimum of 2"),
    "no columns": (X[:, :0], "0 feature"),
    "one column": (X[:, :1], "minimum of 2"),
    "complex": (X + 1j, "Complex data not supported"),
    "text": (with_text(), "does not convert to float"),
    "objects": (with_objects(), "does not convert to float"),
    "strings": (np.full((60, 5), "918273.645 Elm"), "does not convert to float"),
    "masked": (MASKED, "missing_code=code"),
    "masked rows": (list(MASKED), "missing_code=code"),
    "dates": (DATES, "dates and durations"),
    "durations": (X.astype("m8[ns]"), "dates and durations"),
    "a duration among numbers": (with_durations(), "does not convert to float"),
    "a column of dates": (FRAME, "dates and durations"),
    "columns of dates": (pd.DataFrame(DATES), "dates and durations"),
    "columns of durations, polars": (pl.DataFrame(X.astype("m8[ns]")), "dates and durations"),
    "sparse, 1-d": (sparse.coo_array(X[3]), "2-d"),
    "sparse, complex": (sparse.csr_array(X + 1j), "Complex data not supported"),
    "sparse, one row": (sparse.csr_array(X[3:4]), "minimum of 2"),
}


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("case", BAD_X)
def test_bad_arrays(make, case):
    bad, words = BAD_X[case]
    estimator = make(2)
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        estimator.fit(bad)
    assert "918273" not in str(caught.value)
    assert "Elm" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not hasattr(estimator, "components_")


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_components": 0}, r"1…4.*got 0"),
        ({"n_components": 5}, r"1…4.*got 5"),
        ({"n_components": -1}, "got -1"),
        ({"n_components": 1.5}, "whole number"),
        ({"n_components": "two"}, "whole number"),
        ({"center": np.zeros(4)}, "5 finite numbers"),
        ({"center": "mean"}, "'mean'"),
        ({"center": np.full(5, np.nan)}, "5 finite numbers.*got NaN or infinity"),
        ({"scale": np.full(5, np.inf)}, "5 finite numbers.*got NaN or infinity"),
        ({"scale": np.zeros(5)}, "positive"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_parameters(make, params, words):
    with pytest.raises(ValueError, match=words):
        make(**params).fit(X)


NEVER_NUMBERS = {"masked", "masked rows", "dates", "durations", "a column of dates"}


@pytest.mark.parametrize("make", PRIVATE)
@pytest.mark.parametrize("case", sorted(NEVER_NUMBERS))
def test_a_mask_and_dates_are_refused_before_the_charge(make, case, tmp_path):
    bad, words = BAD_X[case]
    budget = Budget(tmp_path / "ledger", 3.0, 1e-5)
    with pytest.raises(TypeError, match=words):
        make(2, budget=budget).fit(bad)
    assert budget.entries() == ()


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("case", sorted(NEVER_NUMBERS))
def test_a_mask_and_dates_are_not_transformed(make, case):
    bad, words = BAD_X[case]
    fit = make(2).fit(X)
    with pytest.raises(TypeError, match=words):
        fit.transform(bad)
    if case in ("masked", "dates"):
        with pytest.raises(TypeError, match=words):
            fit.inverse_transform(bad[:, :2])


@pytest.mark.parametrize("make", ESTIMATORS)
def test_what_the_sentence_on_masks_advises(make):
    fit = make(2, missing_code=-1.0).fit(MASKED.filled(-1.0))
    assert fit.components_.shape == (2, 5)


@pytest.mark.parametrize("make", PRIVATE)
def test_a_masked_cell_among_objects_is_missing(make):
    A = X.astype(object)
    A[5, 1] = np.ma.masked
    assert make(2).fit(A).components_.shape == (2, 5)
    with pytest.raises(ValueError, match="NaN or infinity"):
        make(2, nonfinite="raise").fit(A)


@pytest.mark.parametrize("make", PRIVATE)
@pytest.mark.parametrize("delta", [1e-31, 1e-300, 5e-324])
def test_a_delta_below_the_error_of_the_sampler(make, delta):
    with pytest.raises(ValueError, match="delta must be at least 1e-30"):
        make(2, delta=delta).fit(X)


def test_the_smallest_delta_fits():
    for make in PRIVATE:
        assert make(2, delta=1e-30).fit(X).privacy_.private


def test_fewer_rows_than_components():
    for make in ESTIMATORS:
        with pytest.raises(ValueError, match="at least as many rows"):
            make(4).fit(X[:3])


@pytest.mark.parametrize("make", PRIVATE)
def test_messages_of_pairs(make):
    with pytest.raises(ValueError, match="as many pairs of rows; there are 1"):
        make(2, center="pairs").fit(X[:3])
    with pytest.raises(
        ValueError, match="None, 'auto', 'private', 'pairs', 'median' or an array of 5 public"
    ):
        make(2, center="pair").fit(X)


@pytest.mark.parametrize(
    ("center", "words"),
    [("pairs", r"1…30 \(the number of pairs of rows\)"), (None, r"1…60 \(the number of rows\)")],
)
def test_a_batch_is_of_rows_or_of_pairs(center, words):
    with pytest.raises(ValueError, match=words):
        PrivateRobustPCA(2, algorithm="dp-sggd", center=center, batch_size=61).fit(X)


@pytest.mark.parametrize("center", [None, "pairs"])
def test_a_chosen_number_of_components_is_at_most_that_of_rows(center):
    fit = PrivateRobustPCA("auto", center=center).fit(X[:3])
    assert len(fit.components_) <= (3 if center is None else 1)


@pytest.mark.parametrize("make", PRIVATE)
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": 51.0}, "at most 50"),
        ({"epsilon": None}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"neighboring_relation": "remove"}, "'add-or-remove-one'"),
        ({"neighboring_relation": "add-or-remove-one"}, "public_size"),
        ({"neighboring_relation": "add-or-remove-one", "public_size": 0}, "public_size"),
        ({"neighboring_relation": "add-or-remove-one", "public_size": 9.5}, "public_size"),
        ({"public_size": 100}, "replace-one"),
        ({"rows_per_person": 0}, "rows_per_person"),
        ({"rows_per_person": 1.5}, "rows_per_person"),
        ({"nonfinite": "drop"}, "'zero', 'raise'"),
    ],
)
def test_bad_privacy_parameters(make, params, words):
    with pytest.raises(ValueError, match=words):
        make(**params).fit(X)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"algorithm": "dp-foo"}, "'dp-ggd'"),
        ({"algorithm": "ggd"}, "RobustPCA"),
        ({"algorithm": "dp-sggd", "batch_size": 61}, "1…60"),
        ({"batch_size": 3}, "no option 'batch_size'"),
        ({"algorithm": "dp-ggd", "n_iter": 0}, "whole number in 1…"),
        ({"calibration": "guess"}, "'as-printed'"),
        ({"algorithm_options": {"speed": 1}}, "no option 'speed'"),
    ],
)
def test_bad_private_robust_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        PrivateRobustPCA(2, **params).fit(X)


@pytest.mark.parametrize("make", [RobustPCA, PrivateRobustPCA])
def test_options_come_once_and_as_a_mapping(make):
    with pytest.raises(ValueError, match="'batch_size' has a parameter of its own"):
        make(2, algorithm_options={"batch_size": 5}).fit(X)
    with pytest.raises(TypeError, match="mapping"):
        make(2, algorithm_options=["start"]).fit(X)


def test_public_size_is_what_counts_under_add_or_remove():
    options = {"neighboring_relation": "add-or-remove-one", "public_size": 3}
    with pytest.raises(ValueError, match="there are 3"):
        PrivateRobustPCA(4, **options).fit(X)


@pytest.mark.parametrize("norm_bound", [0.0, -1.0, float("inf"), float("nan")])
def test_bad_norm_bound(norm_bound):
    with pytest.raises(ValueError, match="norm_bound"):
        PrivatePCA(2, norm_bound=norm_bound, center=None).fit(X)


@pytest.mark.parametrize(
    ("algorithm", "value", "words"),
    [
        ("auto", np.inf, "contains infinity"),
        ("auto", -np.inf, "contains infinity"),
        ("irls", np.nan, "NaN or infinity"),
    ],
)
def test_robust_fits_raise_for_non_finite_cells_and_name_no_value(algorithm, value, words):
    bad = X.copy()
    bad[1, 1] = value
    with pytest.raises(ValueError, match=words) as caught:
        RobustPCA(2, algorithm=algorithm).fit(bad)
    assert "918273" not in str(caught.value)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_transform_of_the_wrong_shape(make):
    fit = make(2).fit(X)
    with pytest.raises(ValueError, match="expecting 5 features"):
        fit.transform(X[:, :4])
    with pytest.raises(ValueError, match="2 columns"):
        fit.inverse_transform(X)
    with pytest.raises(ValueError, match="Reshape your data") as caught:
        fit.transform(X[3])
    assert "918273" not in str(caught.value)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_failed_fit_on_another_table_leaves_the_old_names_and_widths(make):
    fit = make(2).fit(X)
    fit.set_params(n_components=17)
    with pytest.raises(ValueError, match="n_components"):
        fit.fit(X[:, :3])
    assert fit.n_features_in_ == 5
    assert fit.transform(X).shape == (60, 2)


@pytest.mark.parametrize("make", PRIVATE)
@pytest.mark.parametrize(
    "bad",
    [np.ones(173), np.ones((173, 1)), [[1.0, 2.0]] * 172 + [[1.0]]],
    ids=["1-d", "1", "ragged"],
)
def test_no_message_tells_a_secret_number_of_rows(make, bad):
    hidden = make(1, neighboring_relation="add-or-remove-one", public_size=100)
    with pytest.raises(ValueError, match=r"table|array") as caught:
        hidden.fit(bad)
    assert "173" not in str(caught.value)


def test_a_failed_fit_leaves_the_old_result():
    fit = PrivateRobustPCA(2, center=None).fit(X)
    before = fit.components_.copy()
    fit.set_params(epsilon=-1.0)
    with pytest.raises(ValueError, match="epsilon"):
        fit.fit(X)
    assert np.array_equal(fit.components_, before)


def test_no_convergence_is_said():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="max_iter"):
        fit = RobustPCA(2, algorithm="irls", max_iter=1).fit(X)
    assert not fit.converged_
    assert RobustPCA(2).fit(X).converged_


class Odd:
    """No answer to ==, no hash, and a repr that tells a record."""

    __hash__ = None

    def __eq__(self, other):
        return np.array([True, False])

    def __repr__(self):
        return f"Odd({SECRET})"


ODD = {
    "array": np.full(3, SECRET),
    "array of words": np.array(["auto", "honest"]),
    "table": X,
    "list": [SECRET, "auto"],
    "dict": {"auto": SECRET},
    "nan": float("nan"),
    "set": {SECRET},
    "bytes": b"918273.645",
    "object": Odd(),
    "endless": 10**5000,
}


def one_clear_sentence(error):
    text = str(error)
    told = ("918273", "ambiguous", "unhashable", "not iterable", "Exceeds")
    return len(text) < 300 and not any(words in text for words in told)


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("odd", ODD)
def test_every_parameter_refuses_odd_values(make, odd):
    for name in sorted(make().get_params()):
        with pytest.raises((ValueError, TypeError)) as caught:
            make(**{name: ODD[odd]}).fit(X)
        text = str(caught.value)
        assert one_clear_sentence(text), text
        assert name in text or (name, odd) == ("algorithm_options", "dict"), text


@pytest.mark.parametrize("odd", ODD)
def test_every_option_refuses_odd_values(odd):
    for private, recipes in ((False, recipes_module.ROBUST), (True, recipes_module.PRIVATE)):
        make = PrivateRobustPCA if private else RobustPCA
        for algorithm, recipe in recipes.items():
            for name in set(recipe.options) - set(make().get_params()) - {"n_iter"}:
                with pytest.raises((ValueError, TypeError)) as caught:
                    make(algorithm=algorithm, algorithm_options={name: ODD[odd]}).fit(X)
                assert one_clear_sentence(caught.value), (algorithm, name, str(caught.value))


@pytest.mark.parametrize("odd", ODD)
def test_words_are_asked_for_in_one_way(odd, tmp_path):
    value = ODD[odd]
    facts = Facts(400, 2, 1, 3.0, 1e-5)
    plan = make_plan("dp-ggd", facts, n_iter=2, start=np.eye(1, 2))
    bounds = {"radius": 0.1, "start": 0.5, "stability": 1.0, "D": 5, "r": 2}
    for refused in (
        lambda: predict(1000, 5, 2, epsilon=1.0, relation=value),
        lambda: audit(plan, delta=1e-5, adversary=value),
        lambda: audit(plan, delta=1e-5, bounds=value),
        lambda: make_neighbours(plan, 0.3, value),
        lambda: search_sensitivity(storages=[value]),
        lambda: iteration_bound(value, **bounds),
        lambda: make_haystack(20, 5, 2, outliers=value),
        lambda: GaussianEvent(1.0, 1.0, 2.0, sampling=value),
        lambda: Budget(tmp_path / "ledger", 1.0, 1e-6, kind=value),
        lambda: Budget(tmp_path / "ledger", 1.0, 1e-6, neighboring_relation=value),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            refused()
        assert one_clear_sentence(caught.value), str(caught.value)


def test_what_is_told_of_a_value():
    assert described("pair") == "'pair'"
    assert described(0.5) == "0.5"
    assert described(-3) == "-3"
    assert described(None) == "None"
    assert described("x" * 61) == "a text of 61 characters"
    assert described(X) == "a value of type ndarray"
    assert described((SECRET,)) == "a value of type tuple"
