"""Calibration of noise: every sampling at T = 2000 against the exact Gaussian one."""

from collections.abc import Iterator
from itertools import count

from benchmarks._facts import named, version
from benchmarks._measure import Runner, race, spread
from benchmarks._rows import Row, at_least, at_most
from stillspace.privacy import (
    ComposedEvent,
    GaussianEvent,
    Relation,
    SamplingName,
    calibrate,
    to_dp_accounting,
)

TOPIC = "calibration"
STEPS, POPULATION, BATCH, DELTA = 2_000, 2_000, 20, 1e-6
EXACT = "stillspace, all rows (exact Gaussian)"
SAMPLED: tuple[SamplingName, ...] = ("poisson", "without-replacement", "with-replacement")


def event(z: float, sampling: SamplingName) -> ComposedEvent:
    facts = {
        "all": {},
        "poisson": {"rate": BATCH / POPULATION},
    }.get(sampling, {"batch_size": BATCH, "population": POPULATION})
    single = GaussianEvent(z, norm_bound=1.0, difference_bound=1.0, sampling=sampling, **facts)
    return ComposedEvent(((single, STEPS),))


def ours(epsilon: float, sampling: SamplingName, relation: Relation) -> float:
    return calibrate(lambda z: event(z, sampling), relation, epsilon, DELTA)


def fresh(sampling: SamplingName, relation: Relation) -> Runner:
    """Return a calibration to a new ε at each call, so that no cache answers."""
    steps = count()
    return lambda: ours(1.0 + 1e-6 * next(steps), sampling, relation)


def theirs(sampling: SamplingName, relation: Relation) -> float:
    """Calibrate the same event with dp_accounting's PLD accountant and its own search."""
    import dp_accounting  # noqa: PLC0415 (an extra)
    from dp_accounting import pld  # noqa: PLC0415

    neighbours = dp_accounting.NeighboringRelation
    kind = {
        "replace-one": neighbours.REPLACE_ONE,
        "add-or-remove-one": neighbours.ADD_OR_REMOVE_ONE,
    }[relation]
    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: pld.PLDAccountant(kind),
            lambda z: to_dp_accounting(event(z, sampling), relation),
            target_epsilon=1.0,
            target_delta=DELTA,
            bracket_interval=dp_accounting.ExplicitBracketInterval(0.3, 10.0),
            tol=1e-3,
        )
    )


def rows(quick: bool) -> Iterator[Row]:
    entries = {EXACT: fresh("all", "replace-one")}
    cases: list[tuple[SamplingName, Relation]] = [(s, "replace-one") for s in SAMPLED]
    cases.append(("poisson", "add-or-remove-one"))
    for sampling, relation in cases:
        entries[f"{sampling}, {relation}"] = fresh(sampling, relation)
    done = race(entries, turns=5 if quick else 11, number=3)
    setting = f"T={STEPS}, q={BATCH / POPULATION:g}, ε=1, δ={DELTA:g}"
    for name in list(entries)[1:]:
        what = f"{name}, {setting}"
        yield done.row(TOPIC, what, name, EXACT, target=at_most(50))
        times = done.seconds(name), done.seconds(EXACT)
        yield Row(TOPIC, what, "the clock", "s", spread(done.times[name]), at_most(0.1), *times)
    yield against_dp_accounting(setting)


def against_dp_accounting(setting: str) -> Row:
    peer = f"{named('dp-accounting')} PLD, its own search to 1e-3"
    what = f"poisson, add-or-remove-one, {setting}"
    if not version("dp-accounting"):
        note = "dp-accounting is not installed: pip install .[bench]"
        return Row(TOPIC, what, peer, "× faster", None, at_least(50), note=note)
    found: list[float] = []
    entries = {
        "ours": fresh("poisson", "add-or-remove-one"),
        peer: lambda: found.append(theirs("poisson", "add-or-remove-one")),
    }
    done = race(entries, turns=2, budget=20, warm_up=False)
    z = ours(1.0, "poisson", "add-or-remove-one")
    note = f"z = {z:.5f} against {found[-1]:.5f}"
    return done.row(TOPIC, what, "ours", peer, faster=True, note=note)
