"""Where the randomness of a private fit comes from: every word is watched while a fit runs.

`watched` follows one fit. Inside it there may be one generator, made in this fit by
`secure_generator` from 256 fresh bits of the system; every other way to make or to copy a
generator fails. Every draw is recorded with the place in the stream where it began and ended, so
that words that were taken unseen, or twice, leave a gap. Every block of noise must be drawn by this
generator, from enough words, and be added to a sum exactly once. Its size must be that of the event
that is accounted for.
"""

import inspect
import os
import random
import secrets
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from stillspace.kernels import choice, lattice
from stillspace.parts.noise import GaussianNoise
from stillspace.parts.sampling import RowPart
from stillspace.plans.release import Release
from stillspace.run.executors import CompiledLoop

REAL = np.random.Generator
PUBLIC = ("stillspace.rows.sketch", "stillspace.parts.geometry")
"""Modules that draw from a seed that is public: a sketch, the first vector of an eigensolver."""
ALARM = 1e-10
"""The rate of a false alarm for the size of all noise of a fit, on either side."""
HALVES = 2
"""Halves of a word: ChaCha counts its stream in pieces of 32 bits."""
_DRAWS = [
    name
    for name in dir(REAL)
    if not name.startswith("_") and name not in ("bit_generator", "spawn")
]


def _caller():
    """The module of ours that asks, if any."""
    for frame in inspect.stack()[2:]:
        module = frame.frame.f_globals.get("__name__", "")
        if module.startswith("stillspace"):
            return module, frame.function
    return "", ""


@dataclass
class Story:
    """What happened in a fit."""

    keys: list = field(default_factory=list)
    """What the system gave, as (bits, value)."""
    made: list = field(default_factory=list)
    """Generators, in the order in which they were made."""
    calls: list = field(default_factory=list)
    """(method, where in the stream it began, where it ended)."""
    blocks: Counter = field(default_factory=Counter)
    """Blocks of noise that were drawn and not yet added to a sum."""
    residues: list = field(default_factory=list)
    """All noise in units of its standard deviation, in the order in which it was drawn."""
    selections: list = field(default_factory=list)
    parts: set = field(default_factory=set)
    """Number of a part of the rows, and its rows."""
    inside: int = 0
    """Halves of words that releases took."""

    @property
    def words(self):
        """Halves of words that were taken from the stream."""
        return sum(end - begin for _, begin, end in self.calls)

    @property
    def noise(self):
        return np.concatenate([np.empty(0), *self.residues])


def _place(generator):
    low, high = (int(x) for x in generator.bit_generator.state["state"]["ctr"])
    return low + (high << 64)


def _refuse(what):
    def refused(*_, **__):
        raise AssertionError(f"{what} inside a private fit")

    return refused


def _refuse_ours(real, what):
    """Refuse a call of our own code; others, such as a cache of compiled code, may go on."""

    def refused(*args, **options):
        module = inspect.currentframe().f_back.f_globals.get("__name__", "")
        assert not module.startswith("stillspace"), f"{what} inside a private fit"
        return real(*args, **options)

    return refused


def _recorder(story):
    """A class of generators that write down what is drawn from them."""

    class Recorder(REAL):
        def __init__(self, bit_generator):
            module, function = _caller()
            assert (module, function) == ("stillspace.parts.noise", "secure_generator"), (
                f"a generator made by {module}.{function}"
            )
            super().__init__(bit_generator)
            self.busy = False
            story.made.append(self)

        __reduce__ = __reduce_ex__ = _refuse("a copy of the generator")
        __copy__ = __deepcopy__ = __getstate__ = _refuse("a copy of the generator")
        spawn = _refuse("a child of the generator")

    def watched(name):
        real = getattr(REAL, name)

        def draw(self, *args, **options):
            if self.busy:
                return real(self, *args, **options)
            self.busy, begin = True, _place(self)
            try:
                return real(self, *args, **options)
            finally:
                self.busy = False
                story.calls.append((name, begin, _place(self)))

        return draw

    for name in _DRAWS:
        setattr(Recorder, name, watched(name))
    return Recorder


class Mute(REAL):
    """A generator for a run that draws nothing: it does not draw."""


for _name in _DRAWS:
    setattr(Mute, _name, _refuse(f"{_name} from a seeded generator"))


def _seeded(make):
    """A maker of seeded generators: public ones work, others cannot be drawn from."""

    def made(*args, **options):
        if _caller()[0] in PUBLIC:
            return make(*args, **options)
        return Mute(np.random.PCG64.real(0))

    made.real = make
    return made


def _watch_releases(monkeypatch, story):
    real_draw, real_draws, real_release = Release.draw, Release.draws, GaussianNoise.release

    def draw(self, k, n_rows, rng, ledger, division=None):
        def one():
            return [real_draw(self, k, n_rows, rng, ledger, division)]

        return watched(self, k, 1, n_rows, rng, one)[0]

    def draws(self, first, count, n_rows, rng, ledger):
        def stacked():
            return real_draws(self, first, count, n_rows, rng, ledger)

        return watched(self, first, count, n_rows, rng, stacked)

    def watched(self, first, count, n_rows, rng, drawn):
        if not self.noisy:
            return drawn()
        assert story.made, "noise from a generator that this fit did not make"
        assert rng is story.made[0], "noise from another generator"
        begin = _place(rng)
        found = drawn()
        taken = _place(rng) - begin
        story.inside += taken
        law = self.query.noise
        needed = 2 * HALVES * law.coordinates * count
        for i in range(count):
            draw = found[i]
            assert draw.noise is not None
            stated = self.event(first + i)
            assert draw.sigma == self.sigma(first + i) == stated.sigma, "noise of another size"
            story.blocks[draw.noise.tobytes()] += 1
            unit = law.spacing(draw.sigma) / draw.sigma
            weights = np.sqrt(law.in_drawn_order(law.precision))
            story.residues.append(law.in_drawn_order(draw.noise) * unit * weights)
            if isinstance(self.sampling, RowPart):  # drawn once, when the rows were divided
                story.parts.add((self.sampling.number, draw.selection.tobytes()))
            elif draw.selection is not None:
                chosen = np.sort(draw.selection)
                needed += min(len(chosen), n_rows - len(np.unique(chosen)))
                story.selections.append(chosen.tobytes())
        assert taken >= needed, f"{taken} halves of words for noise that takes {needed}"
        return found

    def use(indices):
        block = np.ascontiguousarray(indices, dtype=np.int64).tobytes()
        assert story.blocks[block] == 1, "noise that was not drawn, or is used twice"
        del story.blocks[block]

    def release(self, total, indices, sigma):
        use(indices)
        return real_release(self, total, indices, sigma)

    real_advance = CompiledLoop.advance

    def advance(self, draws, first, *seen):
        assert draws.noise is not None
        for i in range(len(draws)):
            use(draws.noise[i])
        return real_advance(self, draws, first, *seen)

    monkeypatch.setattr(Release, "draw", draw)
    monkeypatch.setattr(Release, "draws", draws)
    monkeypatch.setattr(GaussianNoise, "release", release)
    monkeypatch.setattr(CompiledLoop, "advance", advance)


def _recorded_words(real, story):
    """Words of the sampler come from the bit generator itself, past the methods above."""

    def words(rng, count):
        if getattr(rng, "busy", False) or not story.made or rng is not story.made[0]:
            return real(rng, count)
        rng.busy, begin = True, _place(rng)
        try:
            return real(rng, count)
        finally:
            rng.busy = False
            story.calls.append(("words", begin, _place(rng)))

    return words


@contextmanager
def watched(monkeypatch):
    """Follow one private fit; what is not as it should be raises."""
    story = Story()
    with monkeypatch.context() as patch:
        real_bits = secrets.randbits

        def randbits(bits):
            story.keys.append((bits, real_bits(bits)))
            return story.keys[-1][1]

        patch.setattr(secrets, "randbits", randbits)
        for name in ("default_rng", "Philox", "PCG64", "PCG64DXSM", "MT19937", "SFC64"):
            patch.setattr(np.random, name, _seeded(getattr(np.random, name)))
        legacy = ("RandomState", "SeedSequence", "seed", "normal", "random", "randn", "randint")
        for name in (*legacy, "standard_normal", "permutation", "shuffle", "laplace", "choice"):
            patch.setattr(np.random, name, _refuse(f"np.random.{name}"))
        for name in ("Random", "random", "gauss", "normalvariate", "getrandbits", "shuffle"):
            patch.setattr(random, name, _refuse_ours(getattr(random, name), f"random.{name}"))
        patch.setattr(os, "urandom", _refuse_ours(os.urandom, "os.urandom"))
        patch.setattr(np.random, "Generator", _recorder(story))
        recorded = _recorded_words(lattice.next_words, story)
        for module in (lattice, choice):
            patch.setattr(module, "next_words", recorded)
        _watch_releases(patch, story)
        yield story
    _check(story)


def _check(story):
    """One generator, keyed in this fit, whose words were taken in order, each of them once."""
    assert len(story.made) == 1, f"{len(story.made)} generators were made in one fit"
    assert [bits for bits, _ in story.keys] == [256]
    state = story.made[0].bit_generator.state
    assert state["bit_generator"] == "randomgen.chacha.ChaCha"
    assert state["state"]["rounds"] == 20
    key = sum(int(part) << (32 * i) for i, part in enumerate(state["state"]["keysetup"]))
    assert key == story.keys[0][1]
    place = 0
    for name, begin, end in story.calls:
        assert begin == place, f"words before {name} were taken unseen, or are taken again"
        assert end >= begin
        place = end
    assert place == _place(story.made[0])
    assert not story.blocks, "noise was drawn and not added"
    if len(story.noise) > 0:
        size, law = np.sum(story.noise**2), chi2(len(story.noise))
        assert law.ppf(ALARM) < size < law.isf(ALARM), "noise of another size than it states"
    numbers = [number for number, _ in story.parts]
    assert len(numbers) == len(set(numbers)), "the rows were divided twice"
    large = [chosen for chosen in story.selections if len(chosen) > 8 * 8]
    assert len(set(large)) == len(large), "a selection is used twice"
