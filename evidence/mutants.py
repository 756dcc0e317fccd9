"""Known ways to break privacy, applied to a copy of the code one at a time: what turns red?"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evidence._table import markdown

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = (
        "tests/test_release.py",
        "tests/test_recipes.py",
        "tests/parts/test_queries.py",
        "tests/estimators/test_privacy.py",
    )
    also: tuple[tuple[str, str], ...] = ()
    """Further changes of the same file."""


LEDGER = ("tests/privacy/test_budget.py", "tests/estimators/test_budget.py")

PAIRS = ("tests/test_pair_cut.py",)

SOURCE = ("tests/estimators/test_provenance.py",)
"""Where every random word of a fit comes from."""

PTR = ("tests/test_ptr.py",)

EXTENDING = ("tests/test_extending.py",)

SEEDED = "__import__('stillspace.parts.noise', fromlist='_').seeded_generator(7)"
"""A generator whose words everybody knows, in one expression."""

UNCHANGED = Mutant(
    "nothing (must stay green)", "plans/release.py", "class Release:", "class Release:"
)

MUTANTS = [
    Mutant(
        "broken bounds of a user's query are accepted",
        "extending.py",
        "    if not worst.ok:",
        "    if False:",
        tests=EXTENDING,
    ),
    Mutant(
        "a method may ask what was not searched",
        "extending.py",
        "    if known is not None and type(query) not in known:",
        "    if False:",
        tests=EXTENDING,
    ),
    Mutant(
        "a user's noise law is taken on trust",
        "extending.py",
        '    _check_part("noise of the query", query.noise, _NOISES)\n',
        "",
        tests=EXTENDING,
    ),
    Mutant(
        "a user's plan for another relation is run",
        "extending.py",
        "    if built != wanted:",
        "    if False:",
        tests=EXTENDING,
    ),
    Mutant(
        "the guarantee keeps quiet about a user's bounds",
        "estimators/_private.py",
        "            *known_recipe(plan.name, private=True).stated,\n",
        "",
        tests=EXTENDING,
    ),
    Mutant(
        "the search does not know what symmetric noise shows",
        "audit/sensitivity.py",
        "return np.asarray(np.sqrt(query.noise.precision)).ravel()",
        "return np.ones(query.noise.precision.size)",
        tests=EXTENDING,
    ),
    Mutant(
        "longer chains of foreign rows are not seen",
        "run/accounted.py",
        "    if not STANDARD.covers(rows.summation):",
        "    if False:",
        tests=EXTENDING,
    ),
    Mutant(
        "foreign rows are checked after the charge",
        "estimators/_private.py",
        "        source.check(plan)\n",
        "",
        tests=EXTENDING,
    ),
    Mutant(
        "noise halved",
        "plans/release.py",
        "return self.query.noise.draws(sigma, count, rng)",
        "return self.query.noise.draws(sigma, count, rng) // 2",
    ),
    Mutant(
        "noise skipped",
        "plans/release.py",
        "if draw.noise is not None:",
        "if draw.noise is not None and False:",
    ),
    Mutant(
        "start not charged",
        "plans/fixed.py",
        "return self.start.event() + ComposedEvent.merge(self._loop_events())",
        "return ComposedEvent.merge(self._loop_events())",
    ),
    Mutant(
        "start neither planned nor recorded",
        "run/loop.py",
        "draw = start.release.draw(0, rows.n_rows, rng, ledger)\n        nowhere",
        "draw = start.release.draw(0, rows.n_rows, rng, Ledger())\n        nowhere",
    ),
    Mutant(
        "clip removed",
        "kernels/passes.py",
        "clip = larger(multiply(weight, multiply(distance, root(square))), one)",
        "clip = one",
    ),
    Mutant(
        "floor removed",
        "kernels/passes.py",
        "larger(distance, constant(floor)))\n    clip",
        "larger(distance, constant(1e-300)))\n    clip",
    ),
    Mutant(
        "divisor taken from the batch",
        "plans/release.py",
        "return total / self.divisor",
        "drawn = None if draw.selection is None else len(draw.selection)\n"
        "        return total / (drawn or self.divisor)",
    ),
    Mutant(
        "replace-one accounted as add/remove",
        "privacy/events.py",
        'self.difference_bound if relation == "replace-one" or fixed_size else self.norm_bound',
        "self.norm_bound",
    ),
    Mutant(
        "a residual in another order than the specified one",
        "kernels/passes.py",
        "    x = subtract(load(X, at), multiply(spread(V, v), y0))\n"
        "    return subtract(x, multiply(spread(V, v + 1), y1))",
        "    x = add(multiply(spread(V, v), y0), multiply(spread(V, v + 1), y1))\n"
        "    return subtract(load(X, at), x)",
        tests=("tests/parts/test_bits.py",),
    ),
    Mutant(
        "a charge dropped in the loop",
        "plans/release.py",
        "ledger.record(self.event(k), length)",
        "ledger.record(self.event(k), length if k != 1 else 0)",
    ),
    Mutant(
        "a charge dropped among stacked ones",
        "plans/release.py",
        "ledger.record(self.event(k), length)",
        "ledger.record(self.event(k), length - (length > 1))",
    ),
    Mutant(
        "compiled loops halve the noise",
        "kernels/loops.py",
        "return float(np.int64(np.rint(value / spacing)) + index) * spacing",
        "return float(np.int64(np.rint(value / spacing)) + index // 2) * spacing",
        tests=("tests/test_run.py",),
    ),
    Mutant(
        "compiled loops do not round to the lattice",
        "kernels/loops.py",
        "return float(np.int64(np.rint(value / spacing)) + index) * spacing",
        "return value + float(index) * spacing",
        tests=("tests/kernels/test_loops.py", "tests/test_run.py"),
    ),
    Mutant(
        "compiled loops use the noise of the step before",
        "kernels/loops.py",
        "g = _on_lattice(g, noise[k, d, j], spacings[k])",
        "g = _on_lattice(g, noise[max(k - 1, 0), d, j], spacings[k])",
        tests=("tests/test_run.py",),
    ),
    Mutant(
        "off-diagonal noise without its variance",
        "parts/noise.py",
        "off_scale = _scale(sigma, self.off_diagonal_variance, spacing)",
        "off_scale = _scale(sigma, 0.25, spacing)",
    ),
    Mutant(
        "lattice slack dropped",
        "plans/release.py",
        "return self.query.noise.slack(sigma) + summation + terms",
        "return summation + terms",
    ),
    Mutant(
        "slack of the terms dropped",
        "plans/release.py",
        "return self.query.noise.slack(sigma) + summation + terms",
        "return self.query.noise.slack(sigma) + summation",
    ),
    Mutant(
        "number of rows leaks under add/remove",
        "estimators/_validation.py",
        'return checked_whole("public_size", public_size)',
        "return n_rows",
    ),
    Mutant(
        "non-finite row not zeroed",
        "kernels/compiled.py",
        "finite = False",
        "finite = True",
        tests=("tests/kernels/test_rows.py", "tests/estimators/test_privacy.py"),
    ),
    Mutant(
        "seeded fit claims privacy",
        "estimators/_private.py",
        "seeded = (_SEEDED,) if self.random_state is not None else ()",
        "seeded = ()",
        tests=("tests/estimators/test_sklearn.py",),
    ),
    Mutant(
        "a cell is read before the charge",
        "estimators/_private.py",
        "        if self.budget is not None:\n            # The event",
        "        np.asarray(X).sum()\n        if self.budget is not None:\n            # The event",
        tests=LEDGER,
    ),
    Mutant(
        "a copied budget has a tally of its own",
        "privacy/budget.py",
        "    def __deepcopy__(self, memo: dict[int, Any]) -> Self:\n        return self",
        "    def __deepcopy__(self, memo: dict[int, Any]) -> Self:\n"
        "        import shutil, tempfile\n"
        "        copied = object.__new__(type(self))\n"
        '        path = shutil.copy(self._path, tempfile.mkdtemp() + "/l")\n'
        "        copied.__setstate__((path, self._terms, 60.0, self._note, None))\n"
        "        return copied",
        tests=LEDGER,
    ),
    Mutant(
        "two processes may decide on the same tally",
        "privacy/ledger.py",
        "            known = self._current(connection, stamp)\n            name",
        "            known = self._current(connection, stamp)\n"
        '            connection.execute("COMMIT")\n'
        '            connection.execute("BEGIN IMMEDIATE")\n            name',
        tests=LEDGER,
    ),
    Mutant(
        "a charge that need not survive a power cut",
        "privacy/ledger.py",
        'connection.execute("PRAGMA synchronous=EXTRA")',
        'connection.execute("PRAGMA synchronous=OFF")',
        tests=LEDGER,
    ),
    Mutant(
        "add/remove fits enter a replace-one ledger at their own charge",
        "privacy/filters.py",
        "    relation = terms.neighboring_relation\n    if event.sampling",
        '    relation: Relation = "add-or-remove-one"\n    if event.sampling',
        tests=LEDGER,
    ),
    Mutant(
        "every Rényi order gets the whole of δ",
        "privacy/filters.py",
        "each = ideal / len(orders) * (1 - 1e-15)",
        "each = ideal",
        tests=LEDGER,
    ),
    Mutant(
        "charges rounded down",
        "privacy/filters.py",
        "math.ceil(total / UNIT)",
        "math.floor(total / UNIT)",
        tests=LEDGER,
    ),
    Mutant(
        "lengths of pairs not charged",
        "stages.py",
        "for stage in (median, cut, narrowing) if stage is not None]",
        "for stage in (median, narrowing) if stage is not None]",
        tests=PAIRS,
    ),
    Mutant(
        "second moment of short pairs not recorded",
        "stages.py",
        "draw = check.draw(0, rows.n_rows, rng, ledger)",
        "draw = check.draw(0, rows.n_rows, rng, Ledger())",
        tests=PAIRS,
    ),
    Mutant(
        "second moment of short pairs without noise",
        "stages.py",
        "moment = check.apply(short, np.empty((0, 0)), draw)",
        "moment = check.apply(short, np.empty((0, 0)), replace(draw, noise=None))",
        tests=PAIRS,
    ),
    Mutant(
        "lengths of pairs in units of the longest",
        "rows/memory.py",
        "return MemoryRows(levels(self._factors)[None])",
        "return MemoryRows(levels(self._factors / max(self._factors.max(), 1e-300))[None])",
        tests=PAIRS,
    ),
    Mutant(
        "a pair counts in two bins",
        "parts/queries/distances.py",
        "out += np.bincount(bins[XT.any(axis=0)], minlength=len(self.edges) + 1)",
        "out += 2 * np.bincount(bins[XT.any(axis=0)], minlength=len(self.edges) + 1)",
        tests=PAIRS,
    ),
    Mutant(
        "narrowing is not charged",
        "stages.py",
        "for stage in (median, cut, narrowing) if stage is not None]",
        "for stage in (median, cut) if stage is not None]",
        tests=("tests/estimators/test_stages.py",),
    ),
    Mutant(
        "rows are narrowed by their own second moment",
        "narrowing.py",
        "basis = top_eigenvectors(moment, self.width)",
        "basis = top_eigenvectors(rows.sphered().T @ rows.sphered(), self.width)",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "fixed-size batches bounded in one direction only",
        "privacy/renyi.py",
        "log_G = np.logaddexp(log_G, _log_g(t, 1 - order))",
        "log_G = log_G + 0.0",
        tests=("tests/privacy/test_renyi.py",),
    ),
    Mutant(
        "the look at the mean left out of what is spent",
        "methods/newton/method.py",
        "state.moment, state.moment.share + MEAN_SHARE)",
        "state.moment, state.moment.share)",
        ("tests/test_newton.py",),
    ),
    Mutant(
        "counts of near rows left out of what is spent",
        "methods/newton/method.py",
        "spent = state.moment.share + MEAN_SHARE + 2 * COUNT_SHARE",
        "spent = state.moment.share + MEAN_SHARE",
        ("tests/test_newton.py",),
    ),
    Mutant(
        "a start again forgets what was spent before",
        "methods/newton/method.py",
        "return self._enter(state.allowance, state.moment, state.spent)",
        "return self._enter(state.allowance, state.moment, state.moment.share)",
        ("tests/test_newton.py",),
    ),
    # Nine changes that a hostile review made, of which none was red.
    Mutant(
        "two queries of one pass share their normals",
        "plans/release.py",
        "return tuple(release.draw(0, n_rows, rng, ledger) for release in self.releases)",
        "from copy import deepcopy\n"
        "        several = len(self.releases) > 1\n"
        "        return tuple(\n"
        "            release.draw(0, n_rows, rng if i or not several else deepcopy(rng), ledger)\n"
        "            for i, release in enumerate(self.releases)\n"
        "        )",
        tests=("tests/audit/test_residuals.py", *SOURCE),
    ),
    Mutant(
        "all fits of a process share one generator",
        "parts/noise.py",
        "def secure_generator()",
        "@lru_cache(maxsize=1)\ndef secure_generator()",
        tests=SOURCE,
    ),
    Mutant(
        "the noise of summaries has a fixed seed",
        "stages.py",
        "draw = release.draw(0, rows.n_rows, rng, ledger)",
        f"draw = release.draw(0, rows.n_rows, {SEEDED}, ledger)",
        tests=SOURCE,
    ),
    Mutant(
        "the noise of narrowing has a fixed seed",
        "narrowing.py",
        "draw = self.release.draw(0, rows.n_rows, rng, ledger)",
        f"draw = self.release.draw(0, rows.n_rows, {SEEDED}, ledger)",
        tests=SOURCE,
    ),
    Mutant(
        "the noise of the look at short pairs has a fixed seed",
        "stages.py",
        "draw = check.draw(0, rows.n_rows, rng, ledger)",
        f"draw = check.draw(0, rows.n_rows, {SEEDED}, ledger)",
        tests=SOURCE,
    ),
    Mutant(
        "stages beside the subspace protect one row of a person",
        "stages.py",
        "Allowance(mu, facts.n, facts.relation, facts.rows_per_person)",
        "Allowance(mu, facts.n, facts.relation)",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "propose-test-release has the noise of twice its epsilon",
        "ptr.py",
        "noise = half_laplace(plan._budget[0], rng)",
        "noise = half_laplace(2.0 * plan._budget[0], rng)",
        tests=PTR,
    ),
    Mutant(
        "propose-test-release tells the lead where nothing is released",
        "ptr.py",
        "\"algorithm='auto' always gives an answer.\"\n",
        "f\"algorithm='auto' always gives an answer. (The lead is {lead}.)\"\n",
        tests=PTR,
    ),
    Mutant(
        "blocks of propose-test-release start from one another's answer",
        "ptr.py",
        "_cell(_fit(X[block].T, r), offset, plan.width)",
        "_cell(last := _fit(X[block].T, r, last), offset, plan.width)",
        tests=PTR,
        also=(
            ("    X = rows.sphered()\n", "    X, last = rows.sphered(), None\n"),
            ("def _fit(XT: FloatArray, r: int)", "def _fit(XT: FloatArray, r: int, last=None)"),
            (
                "start = dense_eigenvectors(XT @ XT.T, r)",
                "start = dense_eigenvectors(XT @ XT.T, r) if last is None else last",
            ),
        ),
    ),
    # Twenty that were invented after the tests of the nine were written.
    Mutant(
        "a key of 64 bits",
        "parts/noise.py",
        "ChaCha(key=secrets.randbits(256), rounds=20)",
        "ChaCha(key=secrets.randbits(64), rounds=20)",
        tests=SOURCE,
    ),
    Mutant(
        "noise seeded by the clock",
        "estimators/_base.py",
        "        return secure_generator()",
        "        return seeded_generator(__import__('time').time_ns())",
        tests=SOURCE,
    ),
    Mutant(
        "one block of noise for all iterations",
        "plans/release.py",
        "return self.query.noise.draws(sigma, count, rng)",
        "return np.repeat(self.query.noise.draws(sigma, 1, rng), count, axis=0)",
        tests=SOURCE,
    ),
    Mutant(
        "selections have a fixed seed",
        "plans/release.py",
        "selections = self.sampling.draws(n_rows, count, rng)",
        f"selections = self.sampling.draws(n_rows, count, {SEEDED})",
        tests=SOURCE,
    ),
    Mutant(
        "a batch has the first rows",
        "parts/sampling.py",
        "count, rng)\n        return Selections(*draw_subsets(n_rows, sizes, rng))",
        "count, rng)\n        first = [np.arange(size) for size in sizes]\n"
        "        return Selections(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(first))",
        tests=SOURCE,
    ),
    Mutant(
        "noise of the diagonal is that of the first entries off it",
        "parts/noise.py",
        "diagonal = draw_lattice(_scale(sigma, 1.0, spacing), count * self.D, rng)",
        "diagonal = np.resize(drawn, count * self.D) * 181 // 128",
        tests=SOURCE,
    ),
    Mutant(
        "noise of the diagonal from a copy of the generator",
        "parts/noise.py",
        "diagonal = draw_lattice(_scale(sigma, 1.0, spacing), count * self.D, rng)",
        "diagonal = draw_lattice(_scale(sigma, 1.0, spacing), count * self.D, again)",
        tests=SOURCE,
        also=(
            (
                "        drawn = draw_lattice(off_scale",
                "        again = __import__('copy').deepcopy(rng)\n"
                "        drawn = draw_lattice(off_scale",
            ),
        ),
    ),
    Mutant(
        "half of the noise is the other half with the other sign",
        "parts/noise.py",
        "return draw_lattice(scale, count * self.coordinates, rng).reshape(count, *self.shape)",
        "half = draw_lattice(scale, count * self.coordinates // 2 + 1, rng)\n"
        "        both = np.concatenate([half, -half])[: count * self.coordinates]\n"
        "        return both.reshape(count, *self.shape)",
        tests=SOURCE,
    ),
    Mutant(
        "normals of NumPy, rounded",
        "parts/noise.py",
        "return draw_lattice(scale, count * self.coordinates, rng).reshape(count, *self.shape)",
        "normals = rng.standard_normal((count, *self.shape))\n"
        "        return np.rint(normals * scale).astype(np.int64)",
        tests=SOURCE,
    ),
    Mutant(
        "the start of a run draws from a copy of the generator",
        "run/loop.py",
        "result = _run(start.plan, rows, rng, ledger,",
        "result = _run(start.plan, rows, __import__('copy').deepcopy(rng), ledger,",
        tests=SOURCE,
    ),
    Mutant(
        "the generator is rewound after a stage",
        "run/loop.py",
        "    method, kept = plan.method, OnceAdded(rows)\n",
        "    method, kept, before = plan.method, OnceAdded(rows), rng.bit_generator.state\n",
        tests=SOURCE,
        also=(
            (
                "    found = method.outcome(state)\n",
                "    found, rng.bit_generator.state = method.outcome(state), before\n",
            ),
        ),
    ),
    Mutant(
        "the noise of propose-test-release is known",
        "ptr.py",
        "noise = half_laplace(plan._budget[0], rng)",
        "noise = half_laplace(plan._budget[0], np.random.default_rng(plan.size))",
        tests=SOURCE,
    ),
    Mutant(
        "propose-test-release compares the whole lead",
        "ptr.py",
        "if not lead / 2.0 + noise > plan.threshold:",
        "if not lead + noise > plan.threshold:",
        tests=PTR,
    ),
    Mutant(
        "rows are dealt to blocks by their first cell",
        "ptr.py",
        "order = rng.permutation(plan.size)",
        "order = np.argsort(rows.sphered()[:, 0], kind='stable')",
        tests=PTR,
    ),
    Mutant(
        "rows are paired by their first cell",
        "estimators/_private.py",
        "pairs = draw_pairs(told, rng) if view.paired else None",
        "pairs = np.argsort(np.asarray(X)[:, 0])[: told // 2 * 2].reshape(-1, 2)\n"
        "        pairs = pairs if view.paired else None",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "the private median protects one row of a person",
        "stages.py",
        "AdaptivePlan(name, method, facts.n, facts.relation, facts.rows_per_person, mu=limit)",
        "AdaptivePlan(name, method, facts.n, facts.relation, mu=limit)",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "the type of a table follows its cells",
        "estimators/_validation.py",
        "    if isinstance(X, np.ndarray) or sparse.issparse(X):\n        return True\n",
        "    if X is not None:\n        return True\n",
        tests=("tests/estimators/test_lists.py",),
    ),
    Mutant(
        "events of people with one row and with several are composed",
        "privacy/events.py",
        "if len(people) > 1:",
        "if len(people) > 9:",
        tests=("tests/privacy/test_events.py",),
    ),
    Mutant(
        "a ceiling for several rows of a person holds releases for one",
        "plans/release.py",
        "and event.rows_per_person >= self.ceiling.rows_per_person",
        "and event.rows_per_person >= 1",
        tests=("tests/test_adaptive.py",),
    ),
    Mutant(
        "the count of a Poisson batch is not charged",
        "privacy/events.py",
        'return self.coordinates + (self.sampling == "poisson")',
        "return self.coordinates",
        tests=("tests/privacy/test_events.py",),
    ),
]


def table() -> str:
    if red := catch(UNCHANGED):
        msg = f"The tests are red without any mutant: {red}."
        raise RuntimeError(msg)
    rows = [(UNCHANGED.name, "none")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(catch, MUTANTS))
    for mutant, caught in zip(MUTANTS, found, strict=True):
        if caught is None:
            msg = f"No test catches the mutant {mutant.name!r}."
            raise RuntimeError(msg)
        rows.append((mutant.name, caught))
    return markdown(
        "Mutants",
        "Each change is made to a copy of `src/`; the first test that fails is named.",
        ["change", "first test that turns red"],
        rows,
    )


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of a file with the changes of a mutant."""
    for old, new in ((mutant.old, mutant.new), *mutant.also):
        if old not in text:
            msg = f"The mutant {mutant.name!r} does not fit {mutant.file} any more."
            raise RuntimeError(msg)
        text = text.replace(old, new)
    return text


def catch(mutant: Mutant) -> str | None:
    """Return the first test that fails with the mutant in place, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / "stillspace" / mutant.file
        target.write_text(mutated(mutant, target.read_text(encoding="utf-8")), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"`{failed[0].split()[1]}`" if failed else None
