"""Selections against the law that the accountant was told: right ones pass, wrong ones do not."""

import numpy as np
import pytest

from stillspace.audit import check_selection
from stillspace.parts.queries import Glad
from stillspace.parts.sampling import (
    All,
    Poisson,
    Selections,
    WithoutReplacement,
    WithReplacement,
)
from stillspace.plans.release import Release

N = 50


@pytest.mark.parametrize(
    "sampling", [Poisson(0.1), Poisson(0.004), WithoutReplacement(7, N), WithReplacement(7, N)],
    ids=str,
)  # fmt: skip
def test_the_library_draws_what_it_states(sampling):
    assert check_selection(Release(Glad(4, 1), N, 1.0, sampling)) == ()


class AsPoisson(WithReplacement):
    """Drawn with replacement, accounted for as Poisson: the paper's slip."""

    def event_facts(self):
        return {"sampling": "poisson", "rate": self.batch_size / self.population}


class SameBatch(Poisson):
    """One batch for all steps."""

    def draws(self, n_rows, count, rng):
        chosen = super().draws(n_rows, 1, rng).chosen
        return Selections(np.arange(count + 1) * len(chosen), np.tile(chosen, count))


class Neighbouring(WithoutReplacement):
    """Rows that stand together are drawn together."""

    def draws(self, n_rows, count, rng):
        starts = rng.integers(n_rows, size=count)
        chosen = (starts[:, None] + np.arange(self.batch_size)) % n_rows
        return Selections(np.arange(count + 1) * self.batch_size, chosen.ravel())


class Lopsided(WithReplacement):
    def draws(self, n_rows, count, rng):
        drawn = super().draws(n_rows, count, rng)
        chosen = np.where(rng.random(len(drawn.chosen)) < 0.05, 0, drawn.chosen)
        return Selections(drawn.offsets, chosen)


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        (AsPoisson(7, N), "sizes of Poisson batches"),
        (SameBatch(0.1), "more often"),
        (Neighbouring(7, N), "not drawn independently"),
        (Lopsided(7, N), "more often"),
    ],
)
def test_other_laws_are_seen(sampling, words):
    found = " ".join(check_selection(Release(Glad(4, 1), N, 1.0, sampling)))
    assert words in found


def test_a_row_drawn_twice_is_seen():
    found = check_selection(Release(Glad(4, 1), N, 1.0, AsPoisson(7, N)))
    assert "A row is drawn twice in one batch." in found


def test_nothing_to_compare():
    for release in (Release(Glad(4, 1), N, 1.0, All()), Release(Glad(4, 1), N, 0.0, Poisson(0.1))):
        with pytest.raises(ValueError, match="nothing to compare"):
            check_selection(release)
