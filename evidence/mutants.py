"""Known ways to break privacy, applied to a copy of the code one at a time: what turns red?"""

import os
import shutil
import subprocess
import sys
import tempfile
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


MUTANTS = [
    Mutant(
        "noise halved",
        "release.py",
        "return self.query.noise.draws(sigma, count, rng)",
        "return self.query.noise.draws(sigma, count, rng) // 2",
    ),
    Mutant(
        "noise skipped",
        "release.py",
        "if draw.noise is not None:",
        "if draw.noise is not None and False:",
    ),
    Mutant(
        "start not charged",
        "plan.py",
        "return self.start.event() + ComposedEvent.of(self._loop_events())",
        "return ComposedEvent.of(self._loop_events())",
    ),
    Mutant(
        "start neither planned nor recorded",
        "run.py",
        "draw = start.release.draw(0, rows.n_rows, rng, ledger)",
        "draw = start.release.draw(0, rows.n_rows, rng, Ledger())",
    ),
    Mutant(
        "clip removed",
        "parts/queries.py",
        "weight = weight / np.maximum(weight * size, 1.0)",
        "weight = weight / 1.0",
    ),
    Mutant(
        "floor removed",
        "parts/queries.py",
        "weight = 1.0 / np.maximum(distance, self.floor)\n        out +=",
        "weight = 1.0 / np.maximum(distance, 1e-300)\n        out +=",
    ),
    Mutant(
        "divisor taken from the batch",
        "release.py",
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
        "one row's term depends on its neighbours (BLAS residual)",
        "parts/queries.py",
        "R, Y = kernels.residual_to_basis(XT, point)\n        distance = kernels.column_norms(R)\n"
        "        weight",
        "Y = point.T @ XT\n        R = XT - point @ Y\n        distance = kernels.column_norms(R)\n"
        "        weight",
        tests=("tests/parts/test_bits.py",),
    ),
    Mutant(
        "a charge dropped in the loop",
        "release.py",
        "ledger.record(self.event(k))",
        "k == 1 or ledger.record(self.event(k))",
    ),
    Mutant(
        "off-diagonal noise without its variance",
        "parts/noise.py",
        "off_scale = _scale(sigma, self.off_diagonal_variance, spacing)",
        "off_scale = _scale(sigma, 0.25, spacing)",
    ),
    Mutant(
        "lattice slack dropped",
        "release.py",
        "return self.query.noise.slack(sigma) + summation + terms",
        "return summation + terms",
    ),
    Mutant(
        "number of rows leaks under add/remove",
        "estimators/_validation.py",
        'return checked_count("public_size", public_size)',
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
        "estimators/private.py",
        "seeded = (_SEEDED,) if self.random_state is not None else ()",
        "seeded = ()",
        tests=("tests/estimators/test_sklearn.py",),
    ),
]


def table() -> str:
    rows = []
    for mutant in MUTANTS:
        caught = catch(mutant)
        rows.append((mutant.name, caught or "**NOT CAUGHT**"))
    return markdown(
        "Mutants",
        "Each change is made to a copy of `src/`; the first test that fails is named.",
        ["change", "first test that turns red"],
        rows,
    )


def catch(mutant: Mutant) -> str | None:
    """Return the first test that fails with the mutant in place, or None."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / "stillspace" / mutant.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            msg = f"The text of the mutant {mutant.name!r} stands {text.count(mutant.old)} times."
            raise ValueError(msg)
        target.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
    return f"`{failed[0].split()[1]}`" if failed else None
