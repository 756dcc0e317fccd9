"""Known ways to break privacy, applied to a copy of the code one at a time: what turns red?"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from evidence._journal_mutants import JOURNALS
from evidence._mutant import (
    AT_CUT,
    CERTIFICATE,
    EXTENDING,
    LEDGER,
    LOOK,
    PAIRS,
    PTR,
    QUERIES,
    SEEDED,
    SOURCE,
    Mutant,
)
from evidence._parts_mutants import PARTS
from evidence._review_mutants import REVIEW
from evidence._staged_mutants import STAGED, contract
from evidence._table import markdown
from evidence._units_mutants import UNITS

ROOT = Path(__file__).parent.parent


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
        "rows/protocols.py",
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
        "return self.start.event() + steps",
        "return steps",
    ),
    Mutant(
        "start neither planned nor recorded",
        "run/loop.py",
        "answered(start.release, 0, rows, np.empty((0, 0)), rng, ledger, observers)",
        "answered(start.release, 0, rows, np.empty((0, 0)), rng, Ledger(), observers)",
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
        "larger(distance, constant(floor)))\n    if bits",
        "larger(distance, constant(1e-300)))\n    if bits",
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
        "kernels/tiles.py",
        "            e0 = subtract(e0, multiply(load(V, v), w))\n",
        "            e0 = multiply(e0, constant(1.0 + 2.0**-52))\n"
        "            e0 = subtract(e0, multiply(load(V, v), w))\n",
        tests=("tests/rows/test_passes.py",),
    ),
    Mutant(
        "a charge dropped in the loop",
        "plans/release.py",
        "ledger.record(self.event(k), count, self.sampling)",
        "ledger.record(self.event(k), count if k != 1 else 0, self.sampling)",
    ),
    Mutant(
        "a charge dropped among stacked ones",
        "plans/release.py",
        "ledger.record(self.event(k), count, self.sampling)",
        "ledger.record(self.event(k), count - (count > 1), self.sampling)",
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
        "off_scale = lattice_scale(sigma, spacing, self.off_diagonal_variance)",
        "off_scale = lattice_scale(sigma, spacing, 0.25)",
    ),
    Mutant(
        "lattice slack dropped",
        "plans/release.py",
        "return self._bounds.event(sigma, self.query.noise.slack(sigma) + self.rounding)",
        "return self._bounds.event(sigma, self.rounding)",
        tests=("tests/test_release.py",),
    ),
    Mutant(
        "slack of the terms dropped",
        "plans/release.py",
        "return 2.0 * self._summation_error() + terms",
        "return 2.0 * self._summation_error()",
        tests=("tests/test_release.py",),
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
        "privacy/database.py",
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
        "plans/staged.py",
        "return sum((stage.plan.event() for stage in self.stages), NOTHING)",
        'return sum((s.plan.event() for s in self.stages if s.plan.name != "lengths"), NOTHING)',
        tests=PAIRS,
    ),
    Mutant(
        "second moment of short pairs not recorded",
        "run/__init__.py",
        "draws = joint.draw(rows.n_rows, rng, ledger, division)",
        f"unseen = __import__('stillspace.plans.release', fromlist='_').Ledger()\n"
        f"            kept = unseen if {AT_CUT} else ledger\n"
        f"            draws = joint.draw(rows.n_rows, rng, kept, division)",
        tests=contract("test_every_release_is_seen_planned_and_recorded"),
    ),
    Mutant(
        "second moment of short pairs without noise",
        "run/__init__.py",
        "values = joint.apply(asked, ask.point, draws)",
        f"bare = tuple(type(d)(d.selection, None, d.sigma) for d in draws)\n"
        f"            values = joint.apply(asked, ask.point, bare if {AT_CUT} else draws)",
        tests=PAIRS,
    ),
    Mutant(
        "lengths of pairs in units of the longest",
        "rows/memory.py",
        "levels(self._factors[:])",
        "levels(self._factors[:] / max(self._factors[:].max(), 1e-300))",
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
        "plans/staged.py",
        "return sum((stage.plan.event() for stage in self.stages), NOTHING)",
        'return sum((s.plan.event() for s in self.stages if s.plan.name != "narrowing"), NOTHING)',
        tests=("tests/estimators/test_stages.py",),
    ),
    Mutant(
        "rows are narrowed by their own second moment",
        "run/__init__.py",
        "self.kept[key] = through_view(rows, (row_map,), self.pairs)",
        'if type(row_map).__name__ == "Project":\n'
        '                    geometry = __import__("stillspace.parts.geometry", fromlist="_")\n'
        "                    Z = rows.sphered()\n"
        "                    V = geometry.top_eigenvectors(Z.T @ Z, row_map.basis.shape[1])\n"
        "                    row_map = type(row_map)(type(row_map.basis).of(V))\n"
        "                self.kept[key] = through_view(rows, (row_map,), self.pairs)",
        tests=("tests/estimators/test_replay.py::test_narrowed_rows_of_a_neighbour",),
    ),
    Mutant(
        "fixed-size batches bounded in one direction only",
        "privacy/renyi.py",
        "log_G = np.logaddexp(log_G, _log_g(t, 1 - order))",
        "log_G = log_G + 0.0",
        tests=("tests/privacy/test_renyi.py",),
    ),
    Mutant(
        "the modes left out of what is spent",
        "methods/outlier_look/method.py",
        "            spent = state.moment.share + rule.modes_share\n",
        "            spent = state.moment.share\n",
        LOOK,
    ),
    Mutant(
        "the angles left out of what is spent",
        "methods/outlier_look/method.py",
        "spent = state.moment.share + rule.modes_share + rule.angles_share\n",
        "spent = state.moment.share + rule.modes_share\n",
        LOOK,
    ),
    Mutant(
        "the second moment of the rest left out of what is spent",
        "methods/outlier_look/method.py",
        "rule.angles_share + rest.share",
        "rule.angles_share",
        LOOK,
    ),
    Mutant(
        "directions need not stand out of the noise",
        "methods/outlier_look/method.py",
        "least = rule.sure / 2.0 * answer.sd",
        "least = 0.0",
        LOOK,
    ),
    Mutant(
        "groups may hold most of the rows together",
        "methods/outlier_look/method.py",
        "sum(group.share for group in foreign) > rule.minority * rows",
        "False",
        LOOK,
    ),
    Mutant(
        "a minority of all rows, zero rows among them",
        "methods/outlier_look/method.py",
        "rule.minority * rows",
        "rule.minority",
        LOOK,
    ),
    Mutant(
        "directions that overlap are not scaled down",
        "methods/outlier_look/method.py",
        "point = state.directions / state.overlap",
        "point = state.directions",
        LOOK,
    ),
    Mutant(
        "angles are not clipped",
        "kernels/modes.py",
        "abs(Z[a, begin + i]) / size[i]",
        "abs(Z[a, begin + i])",
        QUERIES,
    ),
    Mutant(
        "angles in a bin of their own sum of rows",
        "kernels/modes.py",
        "<= Z[a, begin + i] else 0",
        "<= Z[a, begin + i] + 1e-9 * Z[a, 0] else 0",
        QUERIES,
    ),
    Mutant(
        "fourth moments in units of the squared length",
        "kernels/modes.py",
        "q = ((weight * scaled[j, i]) * scaled[k, i]) * length[i]",
        "q = (weight * scaled[j, i]) * scaled[k, i]",
        QUERIES,
    ),
    Mutant(
        "the fourth moment's √2 forgotten",
        "kernels/modes.py",
        "weight = 1.0 if j == k else math.sqrt(2.0)",
        "weight = 1.0",
        QUERIES,
    ),
    Mutant(
        "steps read the rows that were left out",
        "methods/newton/method.py",
        "return screening.ask(state.belief.V, *queries, sampling=state.sampling)",
        "return Ask(state.belief.V, tuple(queries), sampling=state.sampling)",
        ("tests/test_newton.py",),
    ),
    Mutant(
        "a run forgets the maps of a pass",
        "run/__init__.py",
        "asked = mapped[key]",
        "asked = mapped[(), False]",
        LOOK,
    ),
    # Nine changes that a hostile review made, of which none was red.
    Mutant(
        "two queries of one pass share their normals",
        "plans/release.py",
        "return tuple([r.draw(0, n_rows, rng, ledger, division) for r in self.releases])",
        "from copy import deepcopy\n"
        "        several = len(self.releases) > 1\n"
        "        return tuple(\n"
        "            r.draw(0, n_rows, rng if i or not several else deepcopy(rng), ledger)\n"
        "            for i, r in enumerate(self.releases)\n"
        "        )",
        tests=("tests/audit/test_residuals.py", *SOURCE),
    ),
    Mutant(
        "a generator of 32 random bits fills words of 64",
        "kernels/lattice.py",
        "if type(source) is not ChaCha:",
        "if False:",
        tests=("tests/kernels/test_lattice.py",),
    ),
    Mutant(
        "many words are taken, and the generator stays where it was",
        "kernels/chacha.py",
        "        source.state = state\n",
        "",
        tests=("tests/kernels/test_chacha.py",),
    ),
    Mutant(
        "the blocks of many words forget the first half of their counter",
        "kernels/chacha.py",
        "np.uint32(number & np.uint64(0xFFFFFFFF))",
        "np.uint32(0)",
        tests=("tests/kernels/test_chacha.py",),
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
        "run/loop.py",
        "answered(plan.release, 0, rows, point, rng, ledger, observers)",
        f"answered(plan.release, 0, rows, point, {SEEDED}, ledger, observers)",
        tests=SOURCE,
    ),
    Mutant(
        "the noise of narrowing has a fixed seed",
        "run/__init__.py",
        "found = runner(stage.plan, behind, rng, ledger, behind_view)",
        f"one = {SEEDED} if stage.plan.name == 'narrowing' else rng\n"
        "        found = runner(stage.plan, behind, one, ledger, behind_view)",
        tests=SOURCE,
    ),
    Mutant(
        "the noise of the look at short pairs has a fixed seed",
        "run/__init__.py",
        "draws = joint.draw(rows.n_rows, rng, ledger, division)",
        f"draws = joint.draw(rows.n_rows, {SEEDED} if {AT_CUT} else rng, ledger)",
        tests=SOURCE,
    ),
    Mutant(
        "stages beside the subspace protect one row of a person",
        "recipes/fits.py",
        'reading = Reading("variances", facts.release(ScoreSquares(facts.D, facts.r)))',
        "one = replace(facts, rows_per_person=1)\n"
        '    reading = Reading("variances", one.release(ScoreSquares(facts.D, facts.r)))',
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "propose-test-release has the noise of twice its epsilon",
        "run/tested.py",
        "noise = half_laplace(plan.budget[0], rng)",
        "noise = half_laplace(2.0 * plan.budget[0], rng)",
        tests=PTR,
    ),
    Mutant(
        "propose-test-release tells the lead where nothing is released",
        "run/tested.py",
        "\"algorithm='auto' always gives an answer.\"\n",
        "f\"algorithm='auto' always gives an answer. (The lead is {lead}.)\"\n",
        tests=PTR,
    ),
    Mutant(
        "blocks of propose-test-release start from one another's answer",
        "run/tested.py",
        "_cell(_fit(ChosenRows(rows, block), r), offset, plan.width)",
        "_cell(last := _fit(ChosenRows(rows, block), r, last), offset, plan.width)",
        tests=PTR,
        also=(
            (
                "    D, r = plan.n_columns, plan.n_components\n",
                "    D, r, last = plan.n_columns, plan.n_components, None\n",
            ),
            (
                "def _fit(block: ChosenRows, r: int)",
                "def _fit(block: ChosenRows, r: int, last=None)",
            ),
            (
                "start = GivenStart(FrozenArray.of(dense_eigenvectors(moment, r)))",
                "first = dense_eigenvectors(moment, r) if last is None else last\n"
                "        start = GivenStart(FrozenArray.of(first))",
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
        "return self.sampling.draws(n_rows, count, rng)",
        f"return self.sampling.draws(n_rows, count, {SEEDED})",
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
        "diagonal = draw_lattice(lattice_scale(sigma, spacing), count * self.D, rng)",
        "diagonal = np.resize(drawn, count * self.D) * 181 // 128",
        tests=SOURCE,
    ),
    Mutant(
        "noise of the diagonal from a copy of the generator",
        "parts/noise.py",
        "diagonal = draw_lattice(lattice_scale(sigma, spacing), count * self.D, rng)",
        "diagonal = draw_lattice(lattice_scale(sigma, spacing), count * self.D, again)",
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
        "result = run_loop(start.plan, rows, rng, ledger,",
        "result = run_loop(start.plan, rows, __import__('copy').deepcopy(rng), ledger,",
        tests=SOURCE,
    ),
    Mutant(
        "the generator is rewound after a stage",
        "run/__init__.py",
        "    method = plan.method\n",
        "    method, before = plan.method, rng.bit_generator.state\n",
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
        "run/tested.py",
        "noise = half_laplace(plan.budget[0], rng)",
        "noise = half_laplace(plan.budget[0], np.random.default_rng(plan.size))",
        tests=SOURCE,
    ),
    Mutant(
        "propose-test-release compares the whole lead",
        "run/tested.py",
        "if not lead / 2.0 + noise > plan.threshold:",
        "if not lead + noise > plan.threshold:",
        tests=PTR,
    ),
    Mutant(
        "rows are dealt to blocks by their first cell",
        "run/tested.py",
        "order = rng.permutation(plan.size)",
        "order = np.argsort(rows.sphered()[:, 0], kind='stable')",
        tests=PTR,
    ),
    Mutant(
        "rows are paired by their first cell",
        "run/__init__.py",
        "    views = Views(rows, pairs)",
        "    if pairs is not None:\n"
        "        order = np.argsort(rows.sphered()[:, 0])[: rows.n_rows // 2 * 2]\n"
        "        pairs = order.reshape(-1, 2)\n"
        "    views = Views(rows, pairs)",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "the private median protects one row of a person",
        "recipes/fits.py",
        "return AdaptivePlan(name, method, facts.n, facts.relation, facts.rows_per_person)",
        "return AdaptivePlan(name, method, facts.n, facts.relation)",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "the type of a table follows its cells",
        "estimators/_tables.py",
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
        "plans/ledger.py",
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
    Mutant(
        "far rows of a certificate count twice",
        "parts/queries/moments.py",
        "out += far @ far.T",
        "out += 2.0 * far @ far.T",
        tests=("tests/audit/test_sensitivity.py",),
    ),
    Mutant(
        "the distances of near rows pass their bound",
        "parts/queries/moments.py",
        "distance / self.cut, 0.0)",
        "distance / self.cut**2, 0.0)",
        also=(("np.fmin(near, 1.0).sum()", "near.sum()"),),
        tests=("tests/audit/test_sensitivity.py",),
    ),
    Mutant(
        "a certificate protects one row of a person",
        "recipes/fits.py",
        '("certificate", method, facts.n, facts.relation, facts.rows_per_person)',
        '("certificate", method, facts.n, facts.relation)',
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "the cut of a certificate is that of its rows",
        "run/__init__.py",
        "        state = method.take(state, tuple(map(Answer, values, sds)))\n",
        "        state = method.take(state, tuple(map(Answer, values, sds)))\n"
        "        if hasattr(state, 'certificate') and state.certificate is None:\n"
        "            state = type(state)(float(abs(asked.rows.sphered() @ ask.point).mean()))\n",
        tests=("tests/estimators/test_replay.py",),
    ),
    Mutant(
        "a certificate has no confidence level",
        "methods/certificate/statement.py",
        "t = -ROUNDED * float(ndtri(beta / EVENTS))",
        "t = 0.0",
        tests=CERTIFICATE,
    ),
    Mutant(
        "a certificate forgets the distances of near rows",
        "methods/certificate/statement.py",
        "kappa = max(self.cost + self.cost_sd * t, 0.0)",
        "kappa = 0.0",
        tests=CERTIFICATE,
    ),
    *STAGED,
    *PARTS,
    *UNITS,
    *JOURNALS,
    *REVIEW,
]


def table() -> str:
    if red := catch(UNCHANGED):
        msg = f"The tests are red without any mutant: {red}."
        raise RuntimeError(msg)
    rows = [(UNCHANGED.name, "none")]
    for mutant, caught in zip(MUTANTS, _caught(MUTANTS), strict=True):
        if caught is None:
            msg = f"No test catches the mutant {mutant.name!r}."
            raise RuntimeError(msg)
        rows.append((mutant.name, caught))
    return markdown(
        "Mutants",
        "Each change is made to a copy of `src/`; a test that fails is named.",
        ["change", "test that turns red"],
        rows,
    )


def _caught(mutants: list[Mutant]) -> list[str | None]:
    """Return what catches each mutant; each thread has a folder that it keeps."""
    folders: SimpleQueue[Path] = SimpleQueue()

    def caught(mutant: Mutant) -> str | None:
        folder = folders.get()
        try:
            return catch(mutant, folder)
        finally:
            folders.put(folder)

    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(threads) as pool:
        for i in range(threads):
            folders.put(Path(made) / str(i))
        return list(pool.map(caught, mutants))


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of a file with the changes of a mutant."""
    for old, new in ((mutant.old, mutant.new), *mutant.also):
        if old not in text:
            msg = f"The mutant {mutant.name!r} does not fit {mutant.file} any more."
            raise RuntimeError(msg)
        text = text.replace(old, new)
    return text


def catch(mutant: Mutant, folder: Path | None = None) -> str | None:
    """Return the first test that fails with the mutant in place, or None.

    A `folder` that is kept from one mutant to the next keeps the compiled kernels, too.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return catch(mutant, Path(made))
    copy, compiled = folder / "src", folder / "compiled"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    target = copy / "stillspace" / mutant.file
    target.write_text(mutated(mutant, target.read_text(encoding="utf-8")), encoding="utf-8")
    if mutant.file.startswith("kernels/"):  # what is compiled now is of no use to the next one
        compiled = folder / "mutant"
        shutil.rmtree(compiled, ignore_errors=True)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(compiled)},
        capture_output=True,
        text=True,
        check=False,
    )
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failed and result.returncode != 0:
        msg = f"The tests did not run with the mutant {mutant.name!r}: {result.stdout[-500:]}"
        raise RuntimeError(msg)
    return f"`{failed[0].split()[1]}`" if failed else None
