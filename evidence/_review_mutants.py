"""Changes of sums, files, clusters, labels and default units that a review thought of."""

from evidence._mutant import Mutant

TWO = ("tests/rows/test_two_products.py",)
STORAGE = ("tests/rows/test_storage.py",)
PAIRING = ("tests/rows/test_pairs.py",)
STANDARDISER = ("tests/methods/test_standardiser.py",)
PICTURES = ("tests/methods/test_pictures.py",)
PARTS = ("tests/rows/test_cluster_parts.py",)
LABELS = ("tests/methods/test_labels.py",)
SPARSE = ("tests/rows/test_neighbours.py", "tests/rows/test_storage.py")

CLIPPED = ("tests/audit/test_sensitivity.py::test_terms_are_clipped_at_points_that_are_too_long",)
SLACK = ("tests/test_release.py",)
WHOLE_FITS = ("tests/audit/test_whole_fits.py",)

NOISE = "        noise = None if sigma == 0.0 else self._noise(sigma, 1, rng)[0]"


def watched(case: str) -> tuple[str, ...]:
    """Return the watch of one kind of fit."""
    test = "test_every_word_comes_from_the_one_generator_of_this_fit"
    return (f"tests/estimators/test_provenance.py::{test}[{case}-True]",)


def half_noise(query: str) -> str:
    """Return noise that is halved for queries with this word in their name."""
    return f"        sigma /= 2.0 if {query!r} in self.query.name else 1.0\n{NOISE}"


REVIEW = [
    Mutant(
        "threads that share a generator get the same words",
        "kernels/chacha.py",
        "    with source.lock:\n",
        "    if True:\n",
        tests=("tests/kernels/test_chacha.py",),
    ),
    Mutant(
        "the first of eight rows decides whether the others are clipped",
        "kernels/passes.py",
        "if bits_above(square, constant(SHORT)) != 0:",
        "if bits_above(square, constant(SHORT)) & 1 != 0:",
        tests=("tests/parts/test_bits.py",),
    ),
    Mutant(
        "near rows of a loop share the place of their residuals",
        "kernels/passes.py",
        "places[i + k] = free + (i + k) * D",
        "places[i + k] = free + k * D",
        tests=("tests/kernels/test_loops.py",),
    ),
    Mutant(
        "rows far from the subspace have their residual computed, near ones do not",
        "kernels/passes.py",
        "bits_below(left, constant(near))",
        "bits_above(left, constant(near))",
        tests=TWO,
    ),
    Mutant(
        "a row beside one with a residual has a part of its own score for a distance",
        "kernels/passes.py",
        "where_bits(short, eight_totals(parts, 0 * D), left)",
        "eight_totals(parts, 0 * D)",
        tests=TWO,
    ),
    Mutant(
        "what two products add to a term is not charged",
        "parts/queries/gradients.py",
        "return 2.0 * (D + 8) * u + 1.01 * e / (2.0 * self.near)",
        "return 2.0 * (D + 8) * u",
        tests=TWO,
    ),
    Mutant(
        "what is added up is taken to be as short as a term",
        "parts/queries/gradients.py",
        "return max(1.0, 1.001 / sqrt(self.near))",
        "return 1.0",
        tests=TWO,
    ),
    Mutant(
        "rounding of a job's projection is not charged",
        "parts/queries/gradients.py",
        "return 1.01 * UNIT_ROUNDOFF * chain",
        "return 0.0",
        tests=TWO,
    ),
    Mutant(
        "every basis is taken to be orthonormal",
        "kernels/jobs.py",
        "return near if np.abs(products).max(initial=0.0) <= ORTHONORMAL else np.inf",
        "return near",
        tests=TWO,
    ),
    Mutant(
        "rows are asked another query than the one that is charged",
        "plans/release.py",
        "rows.add(self.asked, point, draw.selection)",
        "rows.add(self.query, point, draw.selection)",
        tests=TWO,
    ),
    Mutant(
        "rows of a joint pass are asked other queries than those that are charged",
        "plans/release.py",
        "queries, selection = tuple(release.asked for",
        "queries, selection = tuple(release.query for",
        tests=TWO,
    ),
    Mutant(
        "the sum of a job is not projected",
        "kernels/jobs.py",
        "        if self._projects:\n",
        "        if False:\n",
        tests=TWO,
    ),
    Mutant(
        "histograms of cells have half of the noise that they state",
        "plans/release.py",
        NOISE,
        half_noise("cells"),
        tests=watched("standardised"),
    ),
    Mutant(
        "a map of scores has half of the noise that it states",
        "plans/release.py",
        NOISE,
        half_noise("map"),
        tests=watched("pictures"),
    ),
    Mutant(
        "far rows of a certificate have half of the noise that they state",
        "plans/release.py",
        NOISE,
        half_noise("far"),
        tests=watched("certificate"),
    ),
    Mutant(
        "a row is in two cells of a map",
        "parts/queries/distances.py",
        "        last += counts.reshape(grid)",
        "        last += (counts + np.roll(counts, 1)).reshape(grid)",
        tests=PICTURES,
    ),
    Mutant(
        "a row is in the map of its label and in that of the others",
        "rows/labels.py",
        "numbers[codes == group]",
        "numbers[(codes == group) | (group == groups - 1)]",
        tests=LABELS,
    ),
    Mutant(
        "rows that are left over are in two pairs",
        "rows/pairs.py",
        "_random_pairs(np.arange(blocks * length, n), rng)",
        "_random_pairs(np.arange(n - blocks * length), rng)",
        tests=PAIRING,
    ),
    Mutant(
        "a row may be the partner of several rows",
        "rows/pairs.py",
        "b * length + rng.permutation(length)",
        "b * length + rng.integers(0, length, length)",
        tests=PAIRING,
    ),
    Mutant(
        "a row has cells of the next row in the columns that fill it up",
        "kernels/storage.py",
        "store(X, at + full, first_lanes(multiply(x, scale), D - full))",
        "store(X, at + full, multiply(x, scale))",
        tests=STORAGE,
    ),
    Mutant(
        "a clip lengthens rows",
        "kernels/storage.py",
        "        inverse = min(inverse, 1.0 / norm_bound)",
        "        inverse = max(inverse, 1.0 / norm_bound)",
        tests=STORAGE,
    ),
    Mutant(
        "the residual of a sparse row is added beside the row",
        "kernels/sparse.py",
        "        if done[i] == 0.0:",
        "        if done[i] >= 0.0:",
        tests=SPARSE,
    ),
    Mutant(
        "the residual of a sparse row has cells of another row",
        "kernels/sparse.py",
        "            dense[q] = 0.0\n",
        "            dense[q] += 0.0\n",
        tests=SPARSE,
    ),
    Mutant(
        "a sum of several workers that is made twice counts a part twice",
        "rows/cluster/worker.py",
        "None if lost else deepcopy(answers[0].found)",
        "None if lost else answers[0].found",
        tests=PARTS,
    ),
    Mutant(
        "rows as they are may be taken for a part behind a view",
        "rows/cluster/worker.py",
        "-rows-{plan.start}",
        "-{plan.start}",
        tests=PARTS,
    ),
    Mutant(
        "tasks of two tables may have one name",
        "rows/cluster/pool.py",
        "        self._word = token_hex(8)",
        '        self._word = "table"',
        tests=PARTS,
    ),
    Mutant(
        "sums of two parts forget what they carry",
        "rows/sums.py",
        "        self.high = self.high + other.high + (low >> CARRY)",
        "        self.high = self.high + other.high",
        tests=PARTS,
    ),
    Mutant(
        "a text file without rows is told from one with a row",
        "estimators/_private.py",
        "        given = opened(X, self, hidden=hidden)",
        "        given = opened(X, self)",
        tests=(
            "tests/estimators/test_files.py::"
            "test_a_secret_number_of_rows_needs_a_header_in_text_files",
        ),
    ),
    Mutant(
        "fourth moments are not cut to length 1",
        "kernels/modes.py",
        "out[row, i] /= squares[i]",
        "out[row, i] *= 1.0",
        tests=CLIPPED,
    ),
    Mutant(
        "a method is told the noise per true row, not per public row",
        "run/__init__.py",
        "        sds = (release.sigma(0) / release.divisor for release in joint.releases)",
        "        sds = (release.sigma(0) / max(rows.n_rows, 1) for release in joint.releases)",
        tests=(
            "tests/estimators/test_privacy.py::"
            "test_a_secret_number_of_rows_changes_no_bit_of_a_result",
        ),
    ),
    Mutant(
        "a secret number of rows has no margin",
        "plans/release.py",
        "ROW_MARGIN = 16",
        "ROW_MARGIN = 1",
        tests=SLACK,
    ),
    Mutant(
        "the level of a length is a library's logarithm",
        "rows/maps.py",
        "(TOP - (exponent + 2.0 * mantissa)) * OCTAVE, 0.0)",
        "(TOP - np.log2(np.maximum(inverses, 5e-324))) * OCTAVE, 0.0)",
        tests=("tests/test_pair_cut.py",),
    ),
    Mutant(
        "the row before decides whether a row is in a cap",
        "rows/memory.py",
        "~np.any(cosines[:, None] <= Y, axis=0)",
        "~np.any(cosines[:, None] <= np.roll(Y, 1, axis=1), axis=0)",
        tests=("tests/rows/test_maps.py",),
    ),
    Mutant(
        "sparse cells that stand twice are added in SciPy's order",
        "rows/stored.py",
        "    order = np.lexsort((X.indices[: X.indptr[-1]], rows))",
        "    order = np.arange(len(rows))\n    X.sort_indices()",
        tests=("tests/rows/test_neighbours.py",),
    ),
    Mutant(
        "a pass behind row maps sees all rows",
        "run/__init__.py",
        "        if key not in mapped:",
        "        mapped.setdefault(key, mapped[(), False])\n        if key not in mapped:",
        tests=WHOLE_FITS,
    ),
    Mutant(
        "a method forgets that a person has several rows",
        "plans/adaptive.py",
        "return Release(query, self.size, None, sampling, self.relation, self.rows_per_person)",
        "return Release(query, self.size, None, sampling, self.relation)",
        tests=WHOLE_FITS,
    ),
]
