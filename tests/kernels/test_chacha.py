"""Words made in many blocks at once are those of the generator, which then stands behind them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import RLock

import numpy as np
import pytest
from randomgen import ChaCha

from stillspace.kernels import chacha, lattice
from stillspace.parts.noise import seeded_generator

MANY = lattice.MANY_WORDS


def facts_of(rng):
    inner = rng.bit_generator.state["state"]
    return [inner[name].tolist() for name in ("ctr", "keysetup")], inner["rounds"]


def at_place(seed, halves):
    rng = seeded_generator(seed)
    state = rng.bit_generator.state
    state["state"]["ctr"][0] = halves
    rng.bit_generator.state = state
    return rng


def test_the_block_of_rfc_8439():
    """Section 2.3.2, whose nonce begins where our counter has its second half."""
    start = np.zeros(16, dtype=np.uint32)
    start[:4] = np.frombuffer(b"expand 32-byte k", dtype=np.uint32)
    start[4:12] = np.frombuffer(bytes(range(32)), dtype=np.uint32)
    start[14:16] = 0x4A000000, 0
    counter = 1 + (0x09000000 << 32)
    out = np.empty((chacha.SIDE, 16), dtype=np.uint32)
    work = np.empty((2, 16, chacha.SIDE), dtype=np.uint32)
    chacha.fill_blocks(start, counter, work[0], work[1], out)
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert out[0].tobytes().hex() == expected


@pytest.mark.parametrize("before", [0, 1, 7, 8, 16, 21])
@pytest.mark.parametrize("count", [MANY, MANY + 1, MANY + 5, 3 * MANY - 3])
def test_many_words_are_those_of_the_generator(before, count):
    """From any place of the stream, also from the middle of a word; and so are all that follow."""
    ours, plain = seeded_generator(5), seeded_generator(5)
    for rng in (ours, plain):
        rng.integers(0, 2**32, size=before, dtype=np.uint32)
    for size in (count, MANY):
        expected = plain.bit_generator.random_raw(size)
        np.testing.assert_array_equal(lattice.next_words(ours, size), expected)
        assert facts_of(ours) == facts_of(plain)
        for few in (3, 20):
            np.testing.assert_array_equal(
                ours.integers(0, 2**32, size=few, dtype=np.uint32),
                plain.integers(0, 2**32, size=few, dtype=np.uint32),
            )


@pytest.mark.parametrize("halves", [2**36 - 64, 2**40 + 6, 2**63 - 6, 2**64 - 10])
def test_far_along_the_stream(halves):
    """Where the counter of blocks passes 32 bits, and where it is left to the generator."""
    ours, plain = at_place(2, halves - halves % 16), at_place(2, halves - halves % 16)
    expected = plain.bit_generator.random_raw(2 * MANY)
    np.testing.assert_array_equal(lattice.next_words(ours, 2 * MANY), expected)
    assert facts_of(ours) == facts_of(plain)


def test_beyond_64_bits_of_the_counter_words_are_others():
    """There they are left to the generator."""
    ours, plain = seeded_generator(4), seeded_generator(4)
    first = plain.bit_generator.random_raw(MANY)
    for rng in (ours, plain):
        state = rng.bit_generator.state
        state["state"]["ctr"][:] = 0, 1
        rng.bit_generator.state = state
    expected = plain.bit_generator.random_raw(MANY)
    found = lattice.next_words(ours, MANY)
    np.testing.assert_array_equal(found, expected)
    assert not np.isin(found, first).any()
    assert facts_of(ours) == facts_of(plain)


def test_fewer_rounds_are_left_to_the_generator():
    ours, plain = (np.random.Generator(ChaCha(key=7, rounds=8)) for _ in range(2))
    expected = plain.bit_generator.random_raw(MANY)
    np.testing.assert_array_equal(lattice.next_words(ours, MANY), expected)
    assert facts_of(ours) == facts_of(plain)


def test_threads_that_share_a_generator_get_different_words():
    """Two releases with the same noise would show the difference of their sums."""
    rng, plain, sizes = seeded_generator(8), seeded_generator(8), [64 * MANY] * 12
    lattice.next_words(seeded_generator(8), MANY)  # compiled before threads run
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda size: lattice.next_words(rng, size), sizes))
    expected = plain.bit_generator.random_raw(sum(sizes))
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.sort(expected))
    assert facts_of(rng) == facts_of(plain)


class Watched:
    """A generator whose state may be touched under its lock only."""

    def __init__(self):
        self.source, self.touched = seeded_generator(8).bit_generator, 0
        self.lock = RLock()

    @property
    def state(self):
        assert self.lock._is_owned()
        self.touched += 1
        return self.source.state

    @state.setter
    def state(self, state):
        assert self.lock._is_owned()
        self.touched += 1
        self.source.state = state


def test_the_state_is_read_and_set_under_the_lock():
    watched = Watched()
    chacha.many_words(watched, MANY)
    assert watched.touched == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
@pytest.mark.parametrize("before", [0, 3, MANY + 3])
def test_a_copy_goes_on_where_the_generator_was(copied, before):
    rng, plain = seeded_generator(9), seeded_generator(9)
    lattice.next_words(rng, before)
    other = copied(rng)
    plain.bit_generator.random_raw(before)
    expected = plain.bit_generator.random_raw(MANY + 2)
    for one in (rng, other):
        words = [lattice.next_words(one, MANY), lattice.next_words(one, 2)]
        np.testing.assert_array_equal(np.concatenate(words), expected)
