"""Changes of staged plans, row maps, exact sums and the run that owns the ledger."""

from evidence._mutant import PTR, QUERIES, SOURCE, Mutant


def contract(test: str) -> tuple[str, ...]:
    """Return one test of what every kind of plan keeps to."""
    return (f"tests/plans/test_contract.py::{test}",)


MAPS = ("tests/rows/test_maps.py",)

SUMS = ("tests/rows/test_sums.py",)

SLACK = (
    "tests/rows/test_sums.py::test_the_slack_counts_every_job_that_may_change",
    "tests/rows/test_sums.py::test_the_slack_counts_the_chains_of_a_compiled_loop",
)

STANDARDISER = ("tests/methods/test_standardiser.py",)

PICTURES = ("tests/methods/test_pictures.py",)

STAGED = [
    Mutant(
        "the first stage is left out of what a fit costs",
        "plans/staged.py",
        "return sum((stage.plan.event() for stage in self.stages), NOTHING)",
        "kept = self.stages[1:] or self.stages\n"
        "        return sum((stage.plan.event() for stage in kept), NOTHING)",
        tests=contract("test_what_ran_is_what_it_says_beforehand"),
    ),
    Mutant(
        "the subspace is calibrated as if it stood alone",
        "plans/staged.py",
        "others = sum((s.plan.event() for s in made if s.share is not None), beside)",
        "others = beside",
        tests=contract("test_a_calibrated_plan_spends_its_budget_and_no_more"),
    ),
    Mutant(
        "what stands beside a whole fit is forgotten",
        "plans/staged.py",
        "others = sum((s.plan.event() for s in made if s.share is not None), beside)",
        "others = sum((s.plan.event() for s in made if s.share is not None), NOTHING)",
        tests=contract("test_it_leaves_room_for_what_stands_beside"),
    ),
    Mutant(
        "within a total the subspace takes all of it",
        "plans/staged.py",
        "rest = mu * sqrt(max(1.0 - shares, 0.0))",
        "rest = mu",
        tests=contract("test_within_a_total_it_has_just_enough_noise"),
    ),
    Mutant(
        "stages may protect different people",
        "plans/staged.py",
        "if len(facts) > 1:",
        "if len(facts) > 9:",
        tests=contract("test_plans_that_do_not_fit_together_are_refused"),
    ),
    Mutant(
        "the view of a plan is not checked",
        "plans/staged.py",
        "        checked_view(self.view)\n",
        "",
        tests=contract("test_plans_that_do_not_fit_together_are_refused"),
    ),
    Mutant(
        "what ran is not compared with the plan of the fit",
        "run/__init__.py",
        "checked_event(event, plan.event()),",
        "event,",
        tests=contract("test_another_event_than_the_planned_one_withholds_the_result"),
    ),
    Mutant(
        "what ran in a stage is not compared with its plan",
        "run/__init__.py",
        "return replace(result, event=ledger.check(plan.event()))",
        "return replace(result, event=plan.event())",
        tests=contract("test_what_is_not_recorded_withholds_the_result"),
    ),
    Mutant(
        "longer chains of additions run",
        "rows/protocols.py",
        "if not STANDARD.covers(rows.summation):",
        "if False:",
        tests=contract("test_longer_chains_are_refused_before_anything_is_read_or_drawn"),
    ),
    Mutant(
        "a fit maps rows that were mapped before",
        "run/__init__.py",
        "    if rows.bounded:\n",
        "    if False:\n",
        tests=contract("test_a_fit_maps_the_rows_itself"),
    ),
    Mutant(
        "the view of a stage is not checked",
        "run/__init__.py",
        "            checked_view(view)\n",
        "            pass\n",
        tests=contract("test_a_stage_whose_rows_have_no_bound_is_refused"),
    ),
    Mutant(
        "the pairing has a generator of its own",
        "run/__init__.py",
        "draw_pairs(rows.n_rows, rng, block_columns(rows)) if",
        "draw_pairs(rows.n_rows, np.random.default_rng(rows.n_rows), block_columns(rows)) if",
        tests=SOURCE,
    ),
    Mutant(
        "the pairing is drawn again where the first row is long",
        "run/__init__.py",
        "    progress, event = Progress(plan.view), NOTHING\n",
        "    if views.pairs is not None and abs(rows.sphered()[0]).max() > 1.0:\n"
        "        views = Views(rows, draw_pairs(rows.n_rows, rng))\n"
        "    progress, event = Progress(plan.view), NOTHING\n",
        tests=contract("test_the_pairing_is_drawn_first_and_without_a_look"),
    ),
    Mutant(
        "the pairing leaves the run",
        "run/__init__.py",
        "        facts=progress.facts,\n",
        "        facts={**progress.facts, 'pairs': views.pairs},\n",
        tests=contract("test_the_pairing_stays_in_the_run"),
    ),
    Mutant(
        "a view of the same kinds of maps shows the rows of another",
        "run/__init__.py",
        "key = id(rows), row_map",
        "key = id(rows), type(row_map)",
        tests=contract("test_a_release_sees_the_rows_behind_its_view"),
    ),
    Mutant(
        "rows behind views are kept for the next run",
        "run/__init__.py",
        "kept: dict[tuple[int, RowMap], Rows] = field(default_factory=dict)",
        "kept: dict[tuple[int, RowMap], Rows] = field(default_factory=lambda kept={}: kept)",
        tests=contract("test_a_run_leaves_nothing_behind"),
    ),
    Mutant(
        "a witness takes a word of the generator",
        "run/__init__.py",
        "behind_view = _with_view(observers, view, views.pairs)\n",
        "behind_view = _with_view(observers, view, views.pairs)\n"
        "        rng.random() if behind_view.witness else None\n",
        tests=contract("test_a_witness_changes_no_bit"),
    ),
    Mutant(
        "a witness of an adaptive plan takes a word of the generator",
        "run/__init__.py",
        "        if observers.witness is not None:\n",
        "        if observers.witness is not None:\n            rng.random()\n",
        tests=contract("test_a_witness_changes_no_bit"),
    ),
    Mutant(
        "the median sees rows on the sphere",
        "methods/stages.py",
        "return with_bound(progress.view, Clip(2.0 * self.radius))",
        "return progress.view",
        tests=contract("test_the_median_sees_clipped_rows_and_the_next_stage_is_centred"),
    ),
    Mutant(
        "the median sees rows that are clipped to half of their norm",
        "methods/stages.py",
        "return with_bound(progress.view, Clip(2.0 * self.radius))",
        "return with_bound(progress.view, Clip(self.radius))",
        tests=contract("test_the_median_sees_clipped_rows_and_the_next_stage_is_centred"),
    ),
    Mutant(
        "narrowed rows have no bound",
        "methods/stages.py",
        "maps: View = (Project(FrozenArray.of(found.V)), Sphere())",
        "maps: View = (Project(FrozenArray.of(found.V)),)",
        tests=("tests/estimators/test_replay.py::test_narrowed_rows_of_a_neighbour",),
    ),
    Mutant(
        "the long rows stay and the short ones go",
        "rows/memory.py",
        "return self._factors[:] > 1.0 / row_map.length",
        "return self._factors[:] <= 1.0 / row_map.length",
        tests=MAPS,
    ),
    Mutant(
        "rows are left out by the inverse of their length",
        "rows/memory.py",
        "return self._factors[:] > 1.0 / row_map.length",
        "return self._factors[:] > row_map.length",
        tests=MAPS,
    ),
    Mutant(
        "a query runs on rows without a bound",
        "rows/memory.py",
        'if not self.bounded and getattr(query, "needs_bound", True):',
        "if False:",
        tests=MAPS,
    ),
    Mutant(
        "projected rows count as bounded",
        "rows/memory.py",
        "source=self._narrowed(row_map), bounded=False)",
        "source=self._narrowed(row_map), bounded=True)",
        tests=MAPS,
    ),
    Mutant(
        "rows of which some were left out count as bounded",
        "rows/memory.py",
        "return self._like(**facts, factors=factors, bounded=self.bounded)",
        "return self._like(**facts, factors=factors, bounded=True)",
        tests=MAPS,
    ),
    Mutant(
        "rows are bounded twice",
        "rows/memory.py",
        "if self.bounded:  # the",
        "if False:  # the",
        tests=MAPS,
    ),
    Mutant(
        "a view may bound rows twice",
        "rows/maps.py",
        "allowed, bounded, begun = not bounded, True, True",
        "allowed, bounded, begun = True, True, True",
        tests=MAPS,
    ),
    Mutant(
        "a projection may end a view",
        "rows/maps.py",
        "allowed, bounded = True, False",
        "allowed = True",
        tests=MAPS,
    ),
    Mutant(
        "the low word is not carried",
        "kernels/words.py",
        "high[i] += whole + (rest >> CARRY)",
        "high[i] += whole",
        tests=SUMS,
    ),
    Mutant(
        "the low word is carried and kept",
        "kernels/words.py",
        "low[i] = rest & ((1 << CARRY) - 1)",
        "low[i] = rest",
        tests=SUMS,
    ),
    Mutant(
        "the high word wraps at 2³¹",
        "rows/sums.py",
        "self.high: IntArray = np.zeros(size, dtype=np.int64)",
        "self.high: IntArray = np.zeros(size, dtype=np.int32)",
        tests=SUMS,
    ),
    Mutant(
        "job sums are added in floating point",
        "rows/sums.py",
        "return ExactSum(shape, norm_bound) if isfinite(norm_bound) else TreeSum(first)",
        "return TreeSum(first)",
        tests=SUMS,
    ),
    Mutant(
        "the chains of a compiled loop are not counted",
        "plans/release.py",
        "if self.size * query.D <= LOOP_CELLS:",
        "if False:",
        tests=SLACK,
    ),
    Mutant(
        "a ceiling forgets what was spent",
        "plans/ledger.py",
        "self.whole, self.parts, self.coordinates = whole, parts, coordinates",
        "self.coordinates = coordinates",
        tests=("tests/test_adaptive.py",),
    ),
    Mutant(
        "propose-test-release records nothing",
        "run/tested.py",
        "        ledger.record(event, count)\n",
        "        pass\n",
        tests=PTR,
    ),
    Mutant(
        "propose-test-release stands beside other releases",
        "plans/tested.py",
        "if beside != NOTHING:",
        "if False:",
        tests=PTR,
    ),
    Mutant(
        "the guarantee of a fit is that of its subspace alone",
        "estimators/_private.py",
        "            result.event,\n",
        "            plan.main.event(),\n",
        tests=contract("test_the_plan_of_a_fit_has_the_epsilon_of_its_guarantee"),
    ),
    Mutant(
        "a ledger is charged for the subspace alone",
        "estimators/_journal.py",
        "budget.charge(plan.event(), plan.relation, **charge)",
        "budget.charge(plan.main.event(), plan.relation, **charge)",
        tests=("tests/estimators/test_stages.py",),
    ),
    Mutant(
        "counts of columns have the bound of one column",
        "parts/queries/columns.py",
        "return sqrt(2.0 * len(self.columns))",
        "return sqrt(2.0)",
        tests=STANDARDISER,
    ),
    Mutant(
        "the norm of counts of columns is that of one column",
        "parts/queries/columns.py",
        "return sqrt(len(self.columns))",
        "return 1.0",
        tests=STANDARDISER,
    ),
    Mutant(
        "a cell is counted in two bins",
        "kernels/counts.py",
        "            C[np.uintp(j * bins + low)] += 1.0\n",
        "            C[np.uintp(j * bins + low)] += 1.0\n            C[j * bins] += 1.0\n",
        tests=STANDARDISER,
    ),
    Mutant(
        "a release keeps the event of less noise than it has",
        "plans/release.py",
        "            return z, unit, found\n",
        "            return z / 2.0, unit, found\n",
        tests=("tests/test_adaptive.py",),
    ),
    Mutant(
        "the noise of a release is that of a wider relation",
        "plans/release.py",
        "limit, relation = Fraction(mu) ** 2, bounds.relation",
        'limit, relation = Fraction(mu) ** 2, "add-or-remove-one"',
        tests=("tests/test_adaptive.py",),
    ),
    Mutant(
        "the standardiser's answers have no noise",
        "run/__init__.py",
        "values = joint.apply(asked, ask.point, draws)",
        "values = joint.apply(asked, ask.point, draws)\n"
        "            if not ask.point.size:\n"
        "                values = [asked.add(q, ask.point, None) / plan.size "
        "for q, _ in ask.shares]",
        tests=STANDARDISER,
    ),
    Mutant(
        "closer looks of the standardiser are free",
        "methods/standardiser/method.py",
        "return replace(asking, zoomed=state.zoomed + share, zooms=state.zooms + 1)",
        "return replace(asking, zooms=state.zooms + 1)",
        tests=STANDARDISER,
    ),
    Mutant(
        "a row is counted in two cells of a map",
        "parts/queries/distances.py",
        "        last += counts.reshape(grid)\n",
        "        last += counts.reshape(grid)\n        last.flat[0] += XT.shape[1]\n",
        tests=PICTURES,
    ),
    Mutant(
        "a map has the bound of a sum of numbers",
        "parts/queries/distances.py",
        'name: ClassVar[str] = "map of the scores"\n'
        "    norm_bound: ClassVar[float] = 1.0\n"
        "    difference_bound: ClassVar[float] = sqrt(2.0)",
        'name: ClassVar[str] = "map of the scores"\n'
        "    norm_bound: ClassVar[float] = 1.0\n"
        "    difference_bound: ClassVar[float] = 1.0",
        tests=(*QUERIES, *PICTURES),
    ),
    Mutant(
        "a map reaches as far as the longest row",
        "methods/stages.py",
        "return with_bound(progress.view, Clip(self._length(progress)))",
        "return progress.view",
        tests=PICTURES,
    ),
    Mutant(
        "the lengths behind a map cost nothing",
        "recipes/fits.py",
        "share = SHARES.summary if clip is not None else SHARES.summary - SHARES.map_length",
        "share = SHARES.summary",
        tests=PICTURES,
    ),
    Mutant(
        "the scale of a column is that of its rows",
        "run/__init__.py",
        "        progress = stage.after(progress, found)\n",
        "        if not view:\n"
        "            raw = behind.sphered()\n"
        "            found.V[:] = np.stack([raw.mean(axis=0), raw.std(axis=0) + 1e-9])\n"
        "        progress = stage.after(progress, found)\n",
        tests=("tests/estimators/test_replay.py",),
    ),
]
