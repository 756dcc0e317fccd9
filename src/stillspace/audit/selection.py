"""Which rows are drawn, against the law that the accountant was told."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom, chi2

from stillspace._typing import IntArray
from stillspace.parts.noise import secure_generator, seeded_generator
from stillspace.plans.release import Release
from stillspace.privacy import GaussianEvent


def check_selection(
    release: Release, *, draws: int = 4000, alarm: float = 1e-6, random_state: int | None = None
) -> tuple[str, ...]:
    """Draw many batches and compare them with the sampling that the release's event states.

    Sizes against their law, how often each row is drawn, how often each two of the first rows are
    drawn together, and rows drawn twice. Returns what is wrong, in words: nothing, but for a false
    alarm with probability `alarm`.

    Examples
    --------
    >>> from stillspace.audit import check_selection
    >>> from stillspace.recipes import Facts, make_plan
    >>> plan = make_plan("dp-sggd", Facts(n=60, D=4, r=1, epsilon=1.0, delta=1e-6), n_iter=5)
    >>> check_selection(plan.release)
    ()
    """
    event = release.event(0)
    if not isinstance(event, GaussianEvent) or event.sampling == "all":
        msg = "There is nothing to compare: this release has no noise, or reads all rows."
        raise ValueError(msg)
    rng = secure_generator() if random_state is None else seeded_generator(random_state)
    n = release.size
    selections = release.sampling.draws(n, draws, rng)
    assert selections is not None
    batches = [np.asarray(selections[i]) for i in range(draws)]
    level = alarm / 4
    return (
        *_sizes(event, n, batches, level),
        *_counts(event, n, batches, level),
        *_together(event, n, batches, level),
        *_twice(event, batches),
    )


def _rate(event: GaussianEvent) -> float:
    """Return the expected number of times that a row is in a batch."""
    return event.rate if event.sampling == "poisson" else event.batch_size / event.population


def _sizes(event: GaussianEvent, n: int, batches: list[IntArray], level: float) -> list[str]:
    sizes = np.array([len(batch) for batch in batches])
    if event.sampling != "poisson":
        return [] if np.all(sizes == event.batch_size) else ["Batches have not the stated size."]
    mean, variance = n * event.rate, n * event.rate * (1.0 - event.rate)
    spread = float(np.sum((sizes - mean) ** 2)) / max(variance, 1e-300)
    low, high = chi2.ppf(level / 2, len(sizes)), chi2.isf(level / 2, len(sizes))
    # The square of a binomial is heavier than that of a normal where few rows are drawn.
    excess = 1.0 + 3.0 * np.sqrt(1.0 / (len(sizes) * max(variance, 1e-3)))
    if not low / excess <= spread <= high * excess:
        return ["The sizes of Poisson batches do not vary as they should."]
    return []


def _counts(event: GaussianEvent, n: int, batches: list[IntArray], level: float) -> list[str]:
    drawn = np.bincount(np.concatenate(batches), minlength=n)
    if event.sampling == "with-replacement":
        trials, chance = len(batches) * event.batch_size, 1.0 / event.population
    else:
        trials, chance = len(batches), _rate(event)
    low, high = (binom.ppf(q, trials, chance) for q in (level / (2 * n), 1 - level / (2 * n)))
    if drawn.min() < low or drawn.max() > high:
        return ["Some rows are drawn more often than others."]
    return []


def _together(event: GaussianEvent, n: int, batches: list[IntArray], level: float) -> list[str]:
    """Count batches that hold two given rows, for pairs among the first rows."""
    if event.sampling == "with-replacement" or n < 2:
        return []
    rate = _rate(event)
    both = rate * rate
    if event.sampling == "without-replacement":
        both = rate * (event.batch_size - 1) / (event.population - 1)
    m = min(n, 12)
    member = np.zeros((len(batches), m), dtype=np.int64)
    for i, batch in enumerate(batches):
        member[i, batch[batch < m]] = 1
    together = (member.T @ member)[np.triu_indices(m, 1)]
    q = level / (2 * len(together))
    if together.min() < binom.ppf(q, len(batches), both) or together.max() > binom.ppf(
        1 - q, len(batches), both
    ):
        return ["Rows are not drawn independently as stated."]
    return []


def _twice(event: GaussianEvent, batches: list[IntArray]) -> list[str]:
    if event.sampling == "with-replacement":
        return []
    if any(len(np.unique(batch)) < len(batch) for batch in batches):
        return ["A row is drawn twice in one batch."]
    return []
