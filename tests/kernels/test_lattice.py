"""The lattice sampler against its specification, its proof and the exact law.

Statistical checks run on fixed seeds. Each has a false-alarm rate of at most 1e-7 over seeds,
all of them together below 2e-6.
"""

from fractions import Fraction
from math import erfc, exp, pi, sqrt

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from stillspace.kernels import lattice
from stillspace.kernels.jit import jit
from stillspace.parts.noise import seeded_generator

DONE, UNDECIDED, EMPTY = lattice._DONE, lattice._UNDECIDED, lattice._EMPTY
FULL = (1 << 192) - 1
V_ONES = ((1 << 22) - 1) << 1  # v as large as it gets: always accepted
WIDTH = (1 << 23) + 12345
SCALE = WIDTH << 7
FALSE_ALARM = 1e-7


def pack(head, v=(1 << 22) - 1, sign=0):
    return head << 23 | v << 1 | sign


def kernel(first, second, width, margin=2.0**-26):
    """What the kernel makes of one pair of words: an integer, None (rejected) or "undecided"."""
    out = np.zeros(1, dtype=np.int64)
    words = np.array([first, second], dtype=np.uint64)
    filled, used, status = lattice._fill(words, out, width, lattice._tables(), margin)
    assert used == 2
    if status == UNDECIDED:
        assert filled == 0
        return "undecided"
    assert (filled, status) in {(1, DONE), (0, EMPTY)}
    return int(out[0]) if filled else None


def chi_square_p(counts, expected):
    """p-value; with equal totals, else the total is one more degree of freedom."""
    assert expected.min() > 8
    statistic = ((counts - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, counts.size - 1)


# --- the declaration ---------------------------------------------------------------------------


def test_jit_works_where_no_cache_can_be_written():
    space = {}
    exec(compile("def add(a, b):\n    return a + b\n", "<nowhere>", "exec"), space)
    assert jit(space["add"])(1, 2) == 3


def test_jit_options():
    options = lattice._fill.targetoptions
    assert options["nogil"]
    assert not options["fastmath"]
    assert options["error_model"] == "numpy"


# --- the words ---------------------------------------------------------------------------------


def test_words_are_those_of_the_generator_and_have_64_random_bits():
    """Each of 64 bits is set somewhere in 200 words, and clear somewhere: false alarm 2e-58."""
    for rng in (seeded_generator(3), np.random.Generator(np.random.MT19937(3))):
        words = lattice.next_words(rng, 200)
        assert words.dtype == np.uint64
        assert np.bitwise_or.reduce(words) == 2**64 - 1
        assert np.bitwise_and.reduce(words) == 0
    same = seeded_generator(3).integers(0, 2**64, size=200, dtype=np.uint64)
    np.testing.assert_array_equal(lattice.next_words(seeded_generator(3), 200), same)


# --- the tables --------------------------------------------------------------------------------


def test_thresholds_are_the_distribution_function_of_k():
    with mpmath.workdps(110):
        weights = [mpmath.exp(-mpmath.mpf(k * k) / 2**15) for k in range(1728)]
        total, running = mpmath.fsum(weights), mpmath.mpf(0)
        for weight, threshold in zip(weights, lattice.thresholds(), strict=True):
            running += weight
            assert abs(running / total * 2**233 - threshold) < mpmath.mpf("0.51")
    assert lattice.thresholds()[-1] == 2**233


def test_proved_error_bounds():
    with mpmath.workdps(60):
        tail = mpmath.erfc(mpmath.mpf("13.5") / mpmath.sqrt(2))
        assert tail < mpmath.mpf(2) ** -131
        t = mpmath.mpf(2) ** -214 + 1728 * mpmath.mpf(2) ** -232 + mpmath.mpf(2) ** -224
        assert tail + 3 * t < lattice.TOTAL_VARIATION
        e = mpmath.mpf(2 * 1727 + 1) / 2**15  # the largest e; the cut of the series, and q <= e
        series = e - e**2 / 2 + e**3 / 6 - e**4 / 24 + e**5 / 120
        assert abs(1 - mpmath.exp(-e) - series) < 2.0**-28.9 < lattice._MARGIN / 4


def test_fixed_point_exponential():
    with mpmath.workprec(400):
        for e in (0, 1, 3**200, 2**318 // 5, 2**317, 2**317 - 1):
            exact = (1 - mpmath.exp(-mpmath.mpf(e) / 2**320)) * 2**320
            assert abs(lattice._one_minus_exp(e) - exact) < 2**10


def test_cells_at_every_threshold():
    """Around each threshold and each entry of the guide: the right k, or undecided."""
    heads = [t >> 192 for t in lattice.thresholds()]
    starts = [i << 29 for i in range(1 << 12)]
    near = {h + d for h in [*heads, *starts] for d in (-1, 0, 1)}
    known = set(heads)
    for head in sorted(h for h in near if 0 <= h < 1 << 41):
        result = kernel(pack(head), 0, 1000)
        if head in known:
            assert result == "undecided"
        else:
            assert result == 1000 * np.searchsorted(heads, head)
            assert result == lattice.attempt(pack(head), 0, (0, 0, 0), 1000)
            assert result == lattice.attempt(pack(head), 0, (FULL, 0, 0), 1000)


# --- the kernel is a shortcut of the specification ------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 64, 301])
def test_rounding_of_wu_by_brute_force(width):
    """u -> floor(w u + 1/2) is a step function: right at each jump is right everywhere."""
    jumps = [Fraction((2 * j + 1) << 63, width) for j in range(width)]
    words = {int(jump) + d for jump in jumps for d in (-1, 0, 1)} | {0, 2**64 - 1}
    for word in sorted(words):
        result = kernel(pack(0), word, width)
        if any(word < jump < word + 1 for jump in jumps):
            assert result == "undecided"
            ends = [lattice.attempt(pack(0), word, (0, x, 0), width) for x in (0, FULL)]
            assert ends[1] == ends[0] + 1
        else:
            assert result == sum(word >= jump for jump in jumps)


@pytest.mark.parametrize("width", [2**23, 2**25 - 1, 2**32 - 1])
def test_rounding_of_wu_for_wide_cells(width):
    rng = np.random.default_rng(1)
    undecided = 0
    for j in rng.integers(0, width, 1000).tolist():
        jump = Fraction((2 * j + 1) << 63, width)
        for word in (int(jump) - 1, int(jump), int(jump) + 1):
            result = kernel(pack(0), word, width)
            if result == "undecided":
                undecided += 1
                assert word < jump < word + 1
            else:
                assert result == j + (word >= jump)
    assert undecided == (0 if width == 2**23 else 1000)


def close_calls(count, rng):
    """Pairs of words whose v lies about its q: cells of the body and of the tail."""
    heads = [t >> 192 for t in lattice.thresholds()]
    for i in range(count):
        k = int(rng.integers(0, 500 if i % 2 else 930))
        low, high = (heads[k - 1] if k else -1) + 1, heads[k] - 1
        if low > high:
            continue
        u = int(rng.integers(0, 2**64, dtype=np.uint64)) if i % 3 else 2**64 - 1
        x = u / 2**64
        q = -np.expm1(-(2 * k + x) * x / 2**15)
        v = int(q * 2**22) + int(rng.integers(-2, 3))
        if 0 <= v < 1 << 22:
            yield pack(int(rng.integers(low, high, endpoint=True)), v, i & 1), u


def test_kernel_decides_only_what_every_continuation_decides():
    rng = seeded_generator(11)
    kinds = {"accepted": 0, "rejected": 0, "undecided": 0}
    for first, second in close_calls(8000, rng):
        result = kernel(first, second, WIDTH)
        if result == "undecided":
            kinds["undecided"] += 1
            continue
        kinds["rejected" if result is None else "accepted"] += 1
        for extra in ((0, 0, 0), (FULL, FULL, FULL), (0, FULL, 0), (FULL, 0, FULL)):
            assert lattice.attempt(first, second, extra, WIDTH) == result
    assert min(kinds.values()) > 800


def test_exact_path_decides_like_the_true_exponential():
    """v in steps of one unit of its last place about q: the decision flips at the right one."""
    rng = seeded_generator(12)
    with mpmath.workprec(600):
        for first, second in list(close_calls(200, rng))[:120]:
            k_extra, u_extra = (int.from_bytes(rng.bytes(24), "little") for _ in range(2))
            head = first >> 23
            k = sum(t <= (head << 192 | k_extra) for t in lattice.thresholds())
            u = mpmath.mpf(second << 192 | u_extra) / 2**256
            q = (1 - mpmath.exp(-(2 * k * u + u * u) / 2**15)) * 2**214
            for step in (-1, 0, 1, 2):
                v = int(mpmath.floor(q)) + step
                if v < 0:
                    continue
                words = pack(head, v >> 192), second
                drawn = lattice.attempt(*words, (k_extra, u_extra, v & FULL), WIDTH)
                assert (drawn is not None) == (v >= q)


def test_draws_equal_the_specification_on_the_same_words():
    count = 20_000
    drawn = lattice.draw_lattice(SCALE, count, seeded_generator(5))
    words = seeded_generator(5).integers(0, 2**64, size=2 * (count + 158), dtype=np.uint64)
    pairs = words.reshape(-1, 2).tolist()
    plain = [lattice.attempt(a, b, (0, 0, 0), WIDTH) for a, b in pairs]
    assert drawn.tolist() == [k for k in plain if k is not None][:count]
    assert None in plain


def test_undecided_attempts_get_fresh_words(monkeypatch):
    """Forced refinement: the draws equal the specification fed from the same stream."""
    count, exact, seen, fed = 20_000, lattice.attempt, [], []
    monkeypatch.setattr(lattice, "attempt", lambda *args: seen.append(args[2]) or exact(*args))
    drawn = lattice.draw_lattice(SCALE, count, seeded_generator(6), margin=1.0)
    stream = seeded_generator(6)
    pairs = stream.integers(0, 2**64, size=2 * (count + 158), dtype=np.uint64).reshape(-1, 2)
    expected = []
    for first, second in pairs.tolist():
        if kernel(first, second, WIDTH, margin=1.0) == "undecided":
            nine = stream.integers(0, 2**64, size=9, dtype=np.uint64).tolist()
            extra = tuple(
                sum(x << 64 * i for i, x in enumerate(nine[j : j + 3])) for j in (0, 3, 6)
            )
            fed.append(extra)
        else:
            extra = (0, 0, 0)
        k = exact(first, second, extra, WIDTH)
        if k is not None:
            expected.append(k)
        if len(expected) == count:
            break
    assert len(fed) > 60
    assert seen == fed
    assert drawn.tolist() == expected


@pytest.mark.parametrize("scale", [0, -128, 64, 129, 2**39])
def test_scale_is_checked(scale):
    with pytest.raises(ValueError, match="multiple of 128"):
        lattice.draw_lattice(scale, 1, seeded_generator(0))


def test_margin_below_the_proof_is_refused():
    with pytest.raises(ValueError, match="margin"):
        lattice.draw_lattice(128, 1, seeded_generator(0), margin=2.0**-27)


def test_no_draws():
    assert lattice.draw_lattice(128, 0, seeded_generator(0)).shape == (0,)


# --- the law -----------------------------------------------------------------------------------


def cell_probabilities(edges, scale):
    """P(edges[i] <= K < edges[i+1]), with open ends; the left half by symmetry for precision."""
    z = (np.asarray(edges, dtype=np.float64) - 0.5) / scale
    right = np.concatenate([[1.0], ndtr(-z), [0.0]])
    left = np.concatenate([[0.0], ndtr(z), [1.0]])
    return np.where(np.append(z, np.inf) <= 0, np.diff(left), -np.diff(right))


def law_edges(scale):
    body = np.arange(-4, 4.001, 1 / 32)
    tails = np.array([4.25, 4.5, 4.75])
    return np.rint(np.concatenate([-tails[::-1], body, tails]) * scale).astype(np.int64)


@pytest.mark.parametrize("scale", [128, 384, 1024])
def test_law_of_small_scales_cell_by_cell(scale):
    """Every integer within 3.5 scale is a cell of its own."""
    n = 1 << 20
    drawn = lattice.draw_lattice(scale, n, seeded_generator(scale))
    edges = np.arange(-7 * scale // 2, 7 * scale // 2 + 1)
    counts = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=edges.size + 1)
    expected = n * cell_probabilities(edges, scale)
    keep = expected > 8
    assert keep.sum() > 5 * scale
    counts, expected = (
        np.append(counts[keep], counts[~keep].sum()),
        np.append(expected[keep], expected[~keep].sum()),
    )
    assert chi_square_p(counts, expected) > FALSE_ALARM


class Statistics:
    """Histograms of many draws, gathered in chunks."""

    def __init__(self, chunks, rng, size=1 << 21, **options):
        self.n = chunks * size
        self.edges = law_edges(SCALE)
        self.cells = np.zeros(self.edges.size + 1)
        self.low7, self.low13 = np.zeros(1 << 7), np.zeros(1 << 13)
        self.joint = np.zeros((32, 64))  # position in the bulk against six low bits
        self.powers = np.zeros(4)
        self.signs, self.sawtooth = 0, 0.0
        for _ in range(chunks):
            self.add(lattice.draw_lattice(SCALE, size, rng, **options))

    def add(self, drawn):
        where = np.searchsorted(self.edges, drawn, side="right")
        self.cells += np.bincount(where, minlength=self.cells.size)
        low = drawn & 0x1FFF
        counts = np.bincount(low, minlength=1 << 13)
        self.low13 += counts
        self.low7 += counts.reshape(-1, 1 << 7).sum(axis=0)
        coarse = np.clip(where // 8, 0, 31)
        self.joint += np.bincount(coarse << 6 | (low & 63), minlength=2048).reshape(32, 64)
        z = drawn / SCALE
        self.powers += [z.sum(), (z * z).sum(), (z**3).sum(), (z**4).sum()]
        self.signs += np.sign(drawn).sum()
        k, j = np.divmod(np.abs(drawn), WIDTH)
        self.sawtooth += (k * (0.5 - j / WIDTH)).sum() / 128

    def sawtooth_z(self):
        """Standard score of sum h k (1/2 - u): its mean is about h/12, and 0 without rejection."""
        h, k = 1 / 128, np.arange(1400)
        density = np.exp(-((h * np.append(k, 1400)) ** 2) / 2) / sqrt(2 * pi)
        mass = np.array([erfc(h * i / sqrt(2)) - erfc(h * (i + 1) / sqrt(2)) for i in k])
        mean = (h * k * ((k + 0.5) * mass + 2 / h * np.diff(density))).sum()
        assert mean == pytest.approx(h / 12, rel=0.02)
        return (self.sawtooth - self.n * mean) / sqrt(self.n / 12)


@pytest.fixture(scope="module")
def statistics():
    return Statistics(8, seeded_generator(2024))  # 1.7e7 draws


def test_cells_of_the_law(statistics):
    expected = statistics.n * cell_probabilities(statistics.edges, SCALE)
    assert chi_square_p(statistics.cells, expected) > FALSE_ALARM


def test_low_bits_are_uniform(statistics):
    for counts in (statistics.low7, statistics.low13):
        assert chi_square_p(counts, np.full(counts.size, statistics.n / counts.size)) > FALSE_ALARM


def test_low_bits_are_independent_of_the_position(statistics):
    expected = np.repeat(statistics.joint.sum(axis=1, keepdims=True) / 64, 64, axis=1)
    keep = expected[:, 0] > 8
    assert keep.sum() > 28
    difference = statistics.joint[keep] - expected[keep]
    assert chi2.sf((difference**2 / expected[keep]).sum(), 63 * keep.sum()) > FALSE_ALARM


def test_moments_and_sign(statistics):
    means, n = statistics.powers / statistics.n, statistics.n
    # variances of Z, Z², Z³, Z⁴: 1, 2, 15, 96; |standard score| > 5.4 has probability 7e-8
    scores = (means - [0, 1, 0, 3]) / np.sqrt(np.array([1, 2, 15, 96]) / n)
    assert np.abs(scores).max() < 5.4
    assert abs(statistics.signs) < 5.4 * sqrt(n)


def test_rejection_step_is_there(statistics):
    """The sawtooth: within a cell the density falls by the factor exp(-e)."""
    assert abs(statistics.sawtooth_z()) < 5.4


def test_without_the_rejection_step_the_check_turns_red(monkeypatch):
    """1.7e7 draws see the missing exp(-e) at 9 standard errors: missed with probability 1e-4."""
    plain = lattice.next_words

    def always_accepted(rng, count):
        words = plain(rng, count)
        words[::2] |= np.uint64(V_ONES)
        return words

    monkeypatch.setattr(lattice, "next_words", always_accepted)
    assert Statistics(8, seeded_generator(7)).sawtooth_z() < -5.4


def test_refined_draws_have_the_same_law():
    """Every attempt that needs q goes to the exact path (0.6 % of them)."""
    drawn = Statistics(1, seeded_generator(8), margin=1.0)
    expected = drawn.n * cell_probabilities(drawn.edges, SCALE)
    few = expected < 9
    counts = np.append(drawn.cells[~few], drawn.cells[few].sum())
    assert chi_square_p(counts, np.append(expected[~few], expected[few].sum())) > FALSE_ALARM
    assert abs(drawn.sawtooth_z()) < 5.4


def test_exact_path_accepts_at_the_right_rate():
    """Attempts with v below its quick limit, where about half are rejected."""
    rng = seeded_generator(9)
    heads = lattice._tables()[0]
    accepted, mean, variance = 0, 0.0, 0.0
    words = rng.integers(0, 2**64, size=(30_000, 2), dtype=np.uint64)
    ks = np.searchsorted(heads, words[:, 0] >> np.uint64(23))
    for k, (first, second) in zip(ks.tolist(), words.tolist(), strict=True):
        limit = (2 * k + 1) << 7
        v = (first >> 1 & (1 << 22) - 1) * limit >> 22
        pair = first >> 23 << 23 | v << 1 | first & 1
        accepted += lattice.attempt(pair, second, lattice._extra(rng), WIDTH) is not None
        x = second / 2**64
        p = 1 - (1 - exp(-(2 * k + x) * x / 2**15)) / ((2 * k + 1) / 2**15)
        mean, variance = mean + p, variance + p * (1 - p)
    assert 0.3 < mean / words.shape[0] < 0.7
    assert abs(accepted - mean) < 5.4 * sqrt(variance)
