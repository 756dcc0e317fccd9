"""Lattice noise from a cryptographic generator, against plain normals: what safety costs."""

from collections.abc import Iterator

import numpy as np

from benchmarks._facts import named
from benchmarks._measure import race
from benchmarks._rows import Row
from stillspace.parts.noise import IidGaussian, secure_generator

TOPIC = "noise"
COUNT = 10**6


def rows(quick: bool) -> Iterator[Row]:
    secure, plain = secure_generator(), np.random.default_rng()
    noise = IidGaussian((COUNT,))
    peer = f"{named('numpy')} PCG64 normals, not private"
    entries = {
        "ours": lambda: noise.draws(1.0, 1, secure),
        peer: lambda: plain.standard_normal(COUNT),
    }
    done = race(entries, turns=5 if quick else 21)
    rate = COUNT / done.seconds("ours")
    # A rate is a time of this machine: told, and not judged. 1e7 is what was asked for.
    note = f"{rate:.2g} samples a second (1e7 wanted), each within 2^-128 of its law"
    yield done.row(TOPIC, f"{COUNT:.0e} Gaussian lattice integers", "ours", peer, note=note)
