import json
import math

import numpy as np
import pytest

from stillspace.kernels.choice import BINOMIAL_ERROR
from stillspace.parts.noise import SAMPLER_ERROR
from stillspace.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    TestedEvent,
)

GLAD = GaussianEvent(sigma=3.0, norm_bound=1.0, difference_bound=2.0)


def fixed(name, batch, n, **other):
    return GaussianEvent(1.0, 1.0, 2.0, sampling=name, batch_size=batch, population=n, **other)


@pytest.mark.parametrize(
    ("event", "replace", "add"),
    [
        (GLAD, 2.0, 1.0),
        (GaussianEvent(1.0, 1.0, math.sqrt(2)), math.sqrt(2), 1.0),
        (GaussianEvent(1.0, 1.0, 2.0, slack=0.25), 2.25, 1.25),
        (GaussianEvent(1.0, 1.0, 2.0, slack=0.25, rows_per_person=3), 6.25, 3.25),
        (GaussianEvent(1.0, 1.0, 2.0, sampling="poisson", rate=0.1, slack=0.5), 1.5, 1.5),
        (fixed("without-replacement", 5, 10), 2.0, 2.0),
        (fixed("with-replacement", 5, 10), 2.0, 2.0),
    ],
)
def test_sensitivity_is_the_one_of_the_relation(event, replace, add):
    assert event.sensitivity("replace-one") == replace
    assert event.sensitivity("add-or-remove-one") == add


def test_noise_multiplier_is_infinite_when_nobody_matters():
    assert GaussianEvent(1.0, 0.0, 0.0).noise_multiplier("replace-one") == math.inf


@pytest.mark.parametrize(
    "fields",
    [
        {"sigma": -1.0},
        {"sigma": math.nan},
        {"sigma": math.inf},
        {"norm_bound": -1.0},
        {"difference_bound": math.nan},
        {"slack": -1e-9},
        {"sampler_error": -1.0},
        {"rows_per_person": 0},
        {"coordinates": -1},
        {"sampling": "some"},
        {"sampling": "poisson", "rate": 1.5},
        {"sampling": "poisson", "rate": math.nan},
        {"sampling": "with-replacement", "batch_size": 0, "population": 5},
        {"sampling": "without-replacement", "batch_size": 6, "population": 5},
    ],
)
def test_wrong_fields_are_refused(fields):
    with pytest.raises(ValueError, match=r"\."):
        GaussianEvent(**{"sigma": 1.0, "norm_bound": 1.0, "difference_bound": 2.0, **fields})


def test_unknown_relation_is_refused():
    with pytest.raises(ValueError, match="add-or-remove-one"):
        GLAD.sensitivity("swap")


def test_composition_joins_equal_neighbours_and_keeps_order():
    other = NonPrivateEvent("PCA start")
    event = ComposedEvent.of([GLAD, GLAD, other, GLAD])
    assert event.parts == ((GLAD, 2), (other, 1), (GLAD, 1))
    assert (event + event).parts == ((GLAD, 2), (other, 1), (GLAD, 3), (other, 1), (GLAD, 1))
    assert ComposedEvent.merge([(GLAD, 0), (other, 1)]).parts == ((other, 1),)
    assert event.non_private_reasons == ("PCA start",)


def test_a_negative_count_is_refused():
    with pytest.raises(ValueError, match="-1 times"):
        ComposedEvent(((GLAD, -1),))


def test_events_for_people_with_different_numbers_of_rows_are_refused():
    three = GaussianEvent(1.0, 1.0, 2.0, rows_per_person=3)
    for other in (GLAD, TestedEvent(1.0, 1e-6)):
        with pytest.raises(ValueError, match="people with 1 and 3 rows"):
            ComposedEvent.of([three, other])
        with pytest.raises(ValueError, match="use one rows_per_person"):
            ComposedEvent.of([other]) + ComposedEvent.of([three])
        parts = [{**ComposedEvent.of([e]).to_dict()["parts"][0]} for e in (three, other)]
        with pytest.raises(ValueError, match="people with 1 and 3 rows"):
            ComposedEvent.from_dict({"parts": parts})
    together = ComposedEvent.of([three, NonPrivateEvent("given start"), three])
    assert together.rows_per_person == 3
    assert ComposedEvent(((three, 1), (GLAD, 0))).rows_per_person == 3
    assert ComposedEvent().rows_per_person == 1


def test_sampler_error_counts_every_coordinate_of_every_step():
    noisy = GaussianEvent(1.0, 1.0, 2.0, coordinates=40, sampler_error=1e-15)
    assert ComposedEvent(((noisy, 10), (GLAD, 3))).sampler_error == pytest.approx(4e-13)


def test_the_count_of_a_poisson_batch_is_charged_as_a_normal():
    assert BINOMIAL_ERROR <= SAMPLER_ERROR
    drawn = {"coordinates": 40, "sampler_error": SAMPLER_ERROR}
    for sampling, draws in (("poisson", 41), ("all", 40), ("without-replacement", 40)):
        facts = {"rate": 0.5} if sampling == "poisson" else {"batch_size": 2, "population": 9}
        event = GaussianEvent(1.0, 1.0, 2.0, sampling=sampling, **facts, **drawn)
        assert ComposedEvent(((event, 10),)).sampler_error == 10 * draws * SAMPLER_ERROR


def test_json_round_trip_without_pickle():
    event = ComposedEvent.of(
        [
            GaussianEvent(np.float64(0.1), 1.0, 2.0, coordinates=np.int64(40), sampler_error=1e-16),
            GaussianEvent(1.0, 1.0, 2.0, sampling="poisson", rate=1 / 3),
            fixed("with-replacement", 3, 7),
            NonPrivateEvent("given start"),
        ]
    )
    assert ComposedEvent.from_dict(json.loads(json.dumps(event.to_dict()))) == event


def test_stored_events_are_checked():
    stored = ComposedEvent.of([GLAD]).to_dict()
    with pytest.raises(ValueError, match="sigma"):
        ComposedEvent.from_dict({"parts": [{**stored["parts"][0], "sigma": -1.0}]})
    with pytest.raises(ValueError, match="unknown fields: weakness"):
        ComposedEvent.from_dict({"parts": [{**stored["parts"][0], "weakness": 1}]})
    with pytest.raises(ValueError, match="laplace"):
        ComposedEvent.from_dict({"parts": [{**stored["parts"][0], "kind": "laplace"}]})
