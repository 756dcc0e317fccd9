import json
import math
import pickle

import pytest

from stillspace.privacy import (
    ComposedEvent,
    GaussianEvent,
    Guarantee,
    NonPrivateEvent,
    privacy_curve,
)

ADD, REPLACE = "add-or-remove-one", "replace-one"
RELEASE = ComposedEvent(((GaussianEvent(2.0, 1.0, 2.0), 1),))
SAMPLED = ComposedEvent(((GaussianEvent(1.5, 1.0, 2.0, sampling="poisson", rate=0.1), 20),))
SPY = ComposedEvent(((NonPrivateEvent("the start read the rows without noise"), 1),))


def test_epsilon_is_computed_from_the_event():
    promise = Guarantee.from_event(RELEASE, REPLACE, 1e-5)
    assert promise.private
    assert promise.epsilon == pytest.approx(4.377178, abs=1e-6)
    assert promise.epsilon == privacy_curve(RELEASE, REPLACE).get_epsilon(1e-5)
    assert promise.get_epsilon(1e-8) > promise.epsilon
    assert promise.get_delta(promise.epsilon) <= 1e-5
    assert promise.accountant == "exact Gaussian"
    assert Guarantee.from_event(RELEASE, ADD, 1e-5).epsilon < promise.epsilon
    with pytest.raises(TypeError):
        Guarantee.from_event(RELEASE, REPLACE, 1e-5, epsilon=0.1)


def test_words_for_people():
    text = str(
        Guarantee.from_event(RELEASE, REPLACE, 1e-5, assumptions=("the scaler saw the rows",))
    )
    assert text.startswith("(4.378, 1e-05)-differential privacy under replace-one")
    assert "If any one row is replaced by another, the probability" in text
    assert "79.62 times" in text or "79.61 times" in text
    assert text.endswith("does not cover:\n  - the scaler saw the rows")
    assert "exact Gaussian" in text
    assert "added or left out" in str(Guarantee.from_event(RELEASE, ADD, 1e-5))


def test_printed_epsilon_is_never_below_the_true_one():
    for sigma in (0.01, 0.5, 3.0, 77.0, 4000.0):
        event = ComposedEvent(((GaussianEvent(sigma, 1.0, 2.0), 1),))
        promise = Guarantee.from_event(event, REPLACE, 1e-5)
        shown = float(str(promise).split(",")[0][1:])
        assert promise.epsilon * (1 - 1e-9) <= shown <= promise.epsilon * 1.002 + 1e-300


def test_without_a_promise_it_says_so_first():
    void = Guarantee.from_event(SAMPLED, ADD, 1e-5, not_private_because=("the noise was seeded",))
    assert not void.private
    assert str(void).startswith("No privacy is promised: the noise was seeded.")
    assert "The noise alone would give epsilon" in str(void)
    assert void.epsilon == Guarantee.from_event(SAMPLED, ADD, 1e-5).epsilon


def test_non_private_event():
    void = Guarantee.from_event(SPY + RELEASE, REPLACE, None)
    assert not void.private
    assert void.epsilon == math.inf
    assert void.get_delta(5.0) == 1
    assert void.not_private_because == ("the start read the rows without noise",)
    assert "would give" not in str(void)


def test_sampler_error_hides_nothing_when_nothing_is_promised():
    tiny = ComposedEvent(((GaussianEvent(0.05, 1.0, 2.0, coordinates=9, sampler_error=1e-16), 9),))
    void = Guarantee.from_event(tiny, REPLACE, 1e-3, not_private_because=("as printed",))
    assert 1000 < void.epsilon < math.inf
    assert Guarantee.from_event(tiny, REPLACE, 1e-3).epsilon == math.inf


@pytest.mark.parametrize(
    "promise",
    [
        Guarantee.from_event(RELEASE, REPLACE, 1e-5, assumptions=("a", "b")),
        Guarantee.from_event(SAMPLED, ADD, 1e-5),
        Guarantee.from_event(SPY, REPLACE, None),
        Guarantee.from_event(SPY + SAMPLED, REPLACE, 1e-3, not_private_because=("seeded",)),
    ],
)
def test_round_trips(promise):
    text = json.dumps(promise.to_dict(), allow_nan=False)
    again = Guarantee.from_dict(json.loads(text))
    assert again == promise
    assert hash(again) == hash(promise)
    assert again.epsilon == promise.epsilon
    assert pickle.loads(pickle.dumps(promise)) == promise


def test_a_stored_epsilon_is_not_believed():
    stored = Guarantee.from_event(RELEASE, REPLACE, 1e-5).to_dict()
    again = Guarantee.from_dict({**stored, "epsilon": 0.1})
    assert again.epsilon == pytest.approx(4.377178, abs=1e-6)


def test_a_stored_promise_cannot_be_forged():
    stored = Guarantee.from_event(SPY, REPLACE, 1e-5).to_dict()
    with pytest.raises(ValueError, match="cannot be private"):
        Guarantee.from_dict({**stored, "private": True, "not_private_because": []})
    with pytest.raises(ValueError, match="format"):
        Guarantee.from_dict({**stored, "format": 99})


def test_wrong_arguments():
    with pytest.raises(ValueError, match="states its delta"):
        Guarantee.from_event(RELEASE, REPLACE, None)
    with pytest.raises(ValueError, match="delta"):
        Guarantee.from_event(RELEASE, REPLACE, -0.1)
    with pytest.raises(ValueError, match="neighboring_relation"):
        Guarantee.from_event(RELEASE, "neighbours", 1e-5)
    with pytest.raises(ValueError, match="seeded"):
        Guarantee(RELEASE, REPLACE, 1e-5, True, (), ("seeded",))


def test_a_short_representation_for_notebooks():
    shown = repr(Guarantee.from_event(RELEASE, REPLACE, 1e-5))
    assert shown == (
        "Guarantee(epsilon=4.378, delta=1e-05, neighboring_relation='replace-one', private=True)"
    )
