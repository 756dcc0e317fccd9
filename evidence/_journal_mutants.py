"""Changes of journals and of the rights that a ledger counts."""

from evidence._mutant import Mutant

JOURNAL = ("tests/estimators/test_journal.py",)

JOURNALS = [
    Mutant(
        "an answer is written before it is claimed",
        "run/journal.py",
        "        self._claim(self._number + 1)\n        self._file.append",
        "        self._file.append(self._number + 1, about, values)\n"
        "        self._claim(self._number + 1)\n        self._number += 1\n        return\n"
        "        self._file.append",
        tests=JOURNAL,
    ),
    Mutant(
        "answers are not claimed at all",
        "run/journal.py",
        "        self._claim(self._number + 1)\n",
        "",
        tests=JOURNAL,
    ),
    Mutant(
        "an answer can be claimed twice",
        "privacy/rights.py",
        "WHERE id = ? AND answers = ?",
        "WHERE id = ? AND answers + 1 >= ?",
        tests=JOURNAL,
    ),
    Mutant(
        "a claim that fails is passed over",
        "privacy/rights.py",
        "            if done.rowcount != 1:",
        "            if False:",
        tests=JOURNAL,
    ),
    Mutant(
        "a copied journal goes on without a charge",
        "privacy/rights.py",
        "                return False",
        "                return True",
        tests=JOURNAL,
    ),
    Mutant(
        "an older copy of the ledger is taken",
        "privacy/rights.py",
        "            if published < answers:",
        "            if False:",
        tests=JOURNAL,
    ),
    Mutant(
        "replayed releases are not recorded",
        "run/journal.py",
        "                ledger.record(release.event(k), read=release.sampling)",
        "                pass",
        tests=JOURNAL,
    ),
    Mutant(
        "a second resume pays for the current stage alone",
        "run/journal.py",
        "for stage in range(now, len(plan.stages)):",
        "for stage in range(now, now + 1):",
        tests=JOURNAL,
    ),
    Mutant(
        "a second resume of the default pays half of what its ceiling leaves",
        "run/journal.py",
        "    rest = ledger.limit - ledger.spent\n",
        "    rest = (ledger.limit - ledger.spent) / 2\n",
        tests=JOURNAL,
    ),
    Mutant(
        "a second resume pays for one release less",
        "run/journal.py",
        "planned[len(made) :]",
        "planned[len(made) + 1 :]",
        tests=JOURNAL,
    ),
    Mutant(
        "a fit with a journal is charged for the subspace alone",
        "run/journal.py",
        "left += _left_of(plan.stages[stage].plan, made.get(stage, []))",
        "left += _left_of(plan.stages[stage].plan, made.get(stage, [])) "
        "if plan.stages[stage].share is None else NOTHING",
        tests=JOURNAL,
    ),
    Mutant(
        "a private fit keeps a journal without a budget",
        "estimators/_journal.py",
        "    if budget is None:",
        "    if False:",
        tests=JOURNAL,
    ),
    Mutant(
        "the noise goes into the journal, too",
        "run/loop.py",
        "            journal.keep((release,), k, (value,))",
        "            journal.keep((release,), k, (value,) if draw.noise is None else "
        "(value, draw.noise.view(float)))",
        tests=JOURNAL,
    ),
    Mutant(
        "the answers after a resume have the noise of the first run",
        "run/loop.py",
        "        draw = release.draw(k, rows.n_rows, rng, ledger)",
        "        rng = rng if journal is None else __import__('numpy').random.default_rng(k)\n"
        "        draw = release.draw(k, rows.n_rows, rng, ledger)",
        tests=JOURNAL,
    ),
    Mutant(
        "a damaged answer is taken",
        "run/journal_file.py",
        "or link != stored",
        "",
        tests=JOURNAL,
    ),
    Mutant(
        "a journal of another plan is taken",
        "run/journal_file.py",
        "            if stored != [_header_text(header)]:",
        "            if len(stored) != 1:",
        tests=JOURNAL,
    ),
    Mutant(
        "an answer need not survive a power cut",
        "run/journal_file.py",
        '                    connection.execute("COMMIT")\n                    return found',
        "                    return found",
        tests=JOURNAL,
    ),
    Mutant(
        "the number of published answers may fall",
        "privacy/schema.py",
        "NEW.answers < OLD.answers",
        "NEW.answers < 0",
        tests=JOURNAL,
    ),
]
