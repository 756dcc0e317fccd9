import math
import sys

import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from stillspace.exceptions import NotAccountedError
from stillspace.privacy import (
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    privacy_curve,
    to_dp_accounting,
)

ADD, REPLACE = "add-or-remove-one", "replace-one"
NAMES = {ADD: NeighboringRelation.ADD_OR_REMOVE_ONE, REPLACE: NeighboringRelation.REPLACE_ONE}


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(20.0, 1.0, 2.0),
        GaussianEvent(20.0, 1.0, math.sqrt(2), slack=0.01),
        GaussianEvent(60.0, 1.0, 1.0, rows_per_person=3),
        GaussianEvent(2.0, 1.0, 2.0, sampling="poisson", rate=0.05),
    ],
)
def test_the_same_epsilon(event, relation):
    start = GaussianEvent(45.0, 1.0, 2.0, rows_per_person=event.rows_per_person)
    composed = ComposedEvent(((event, 40), (start, 1)))
    accountant = PLDAccountant(NAMES[relation])
    accountant.compose(to_dp_accounting(composed, relation))
    found = privacy_curve(composed, relation).get_epsilon(1e-6)
    assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


def test_without_replacement_in_the_unit_of_the_rdp_accountant():
    event = GaussianEvent(
        4.0, 1.0, 2.0, sampling="without-replacement", batch_size=5, population=100
    )
    composed = ComposedEvent(((event, 50),))
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(to_dp_accounting(composed, REPLACE))
    ours = privacy_curve(composed, REPLACE).get_epsilon(1e-6)
    assert 0.4 * accountant.get_epsilon(1e-6) < ours < accountant.get_epsilon(1e-6)


def test_other_events():
    drawn = GaussianEvent(4.0, 1.0, 2.0, sampling="with-replacement", batch_size=5, population=9)
    parts = to_dp_accounting(
        ComposedEvent(((drawn, 3), (NonPrivateEvent("spy"), 1))), REPLACE
    ).events
    assert parts[0].event == dp_event.SampledWithReplacementDpEvent(
        9, 5, dp_event.GaussianDpEvent(2.0)
    )
    assert parts[0].count == 3
    assert parts[1].event == dp_event.NonPrivateDpEvent()


def test_what_has_no_accountant_is_not_exported():
    drawn = GaussianEvent(4.0, 1.0, 2.0, sampling="with-replacement", batch_size=5, population=9)
    with pytest.raises(NotAccountedError, match="add-or-remove-one"):
        to_dp_accounting(ComposedEvent(((drawn, 1),)), ADD)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"stillspace\[accounting\]"):
        to_dp_accounting(ComposedEvent(), ADD)
