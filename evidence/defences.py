"""Known ways to break privacy against what should catch them: which defence sees which?

Most are changes of one line, made to a copy of the code in which all defences then run; some are
misuses of the code as it is. A defence that raises an alarm where nothing is wrong would be
worthless: the first row is the code unchanged.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evidence._table import markdown
from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.audit import audit, check_noise, check_selection, search_sensitivity
from stillspace.audit.sensitivity import subjects
from stillspace.exceptions import LedgerError, NotAccountedError, PrivacyWarning
from stillspace.parts.noise import secure_generator
from stillspace.parts.schedules import Constant
from stillspace.recipes import Facts, make_plan
from stillspace.rows import MemoryRows
from stillspace.run import run

ROOT = Path(__file__).parent.parent
DELTA = 1e-5


# --- the defences: each returns True for an alarm -----------------------------------------------


def _plan(name: str = "dp-ggd", epsilon: float = 3.0, **options):
    facts = Facts(400, 3, 1, epsilon, DELTA)
    return make_plan(name, facts, n_iter=8, **options)


def _plans():
    """Compiled and plain loops, all rows and batches, with and without a released start."""
    given = {"start": np.eye(3)[:1]}
    return [
        _plan(**given),
        _plan("dp-sggd", sampling="poisson", **given),
        _plan("dp-sggd", sampling="poisson", geometry="geodesic", **given),
        _plan("dp-sggd", sampling="with-replacement", **given),
        _plan(share=0.9, schedule=Constant(0.01)),  # small steps: what the start leaks stays seen
    ]


def ledger() -> bool:
    try:
        for plan in _plans():
            run(plan, MemoryRows.prepare(np.zeros((400, 3))), secure_generator())
    except LedgerError:
        return True
    return False


def sensitivity() -> bool:
    options = {"storages": ["float64"], "sizes": (8, 64), "points": 8}
    return not all(f.ok for s in subjects(6, 2) for f in search_sensitivity(s, **options))


def _noise_problems() -> str:
    longer = [replace(plan, n_iter=400) for plan in _plans()]
    return " ".join(" ".join(check_noise(plan).problems) for plan in longer)


def residuals() -> bool:
    found = _noise_problems()
    return "noise than stated" in found or "not normal" in found


def independence() -> bool:
    return "tells that of another" in _noise_problems()


def law() -> bool:
    return any(check_selection(p.release) for p in _plans() if p.release.sampling.name != "all")


def attack() -> bool:
    """One alarm in a thousand times that nothing is wrong, all plans together.

    The start that is not charged for needs more runs: it adds a fifth to μ.
    """
    plans = _plans()
    sure = 1 - 1e-3 / len(plans)
    runs = [800] * (len(plans) - 1) + [16000]
    return any(
        audit(plan, delta=DELTA, runs=count, confidence=sure).refuted
        for plan, count in zip(plans, runs, strict=True)
    )


DEFENCES: dict[str, Callable[[], bool]] = {
    "ledger": ledger,
    "sensitivity search": sensitivity,
    "residual σ": residuals,
    "sampler law": law,
    "independence": independence,
    "audit": attack,
}
COLUMNS = (*DEFENCES, "refusal")


# --- changes of the code ------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    name: str
    edits: tuple[tuple[str, str, str], ...]
    """(file, old text, new text)."""


_PLANNED = (
    "plans/fixed.py",
    "return self.start.event() + steps",
    "return steps",
)
_RECORDED = (
    "run/loop.py",
    "answered(start.release, 0, rows, np.empty((0, 0)), rng, ledger, observers)",
    "answered(start.release, 0, rows, np.empty((0, 0)), rng, Ledger(), observers)",
)

CHANGES = [
    Change("nothing (no alarm wanted)", ()),
    Change(
        "half the noise",
        (
            (
                "plans/release.py",
                "return self.query.noise.draws(sigma, count, rng)",
                "return self.query.noise.draws(sigma, count, rng) // 2",
            ),
        ),
    ),
    Change(
        "replace-one accounted as add/remove",
        (
            (
                "privacy/events.py",
                'self.difference_bound if relation == "replace-one" or fixed_size '
                "else self.norm_bound",
                "self.norm_bound",
            ),
        ),
    ),
    Change("start released but not planned for", (_PLANNED,)),
    Change("start neither planned for nor recorded", (_PLANNED, _RECORDED)),
    Change(
        "start without noise",
        (
            (
                "run/loop.py",
                "moment = answered("
                "start.release, 0, rows, np.empty((0, 0)), rng, ledger, observers)",
                "draw = start.release.draw(0, rows.n_rows, rng, ledger)\n        moment = "
                "start.release.apply(rows, np.empty((0, 0)), replace(draw, noise=None))",
            ),
        ),
    ),
    Change(
        "clip dropped",
        (
            (
                "kernels/passes.py",
                "        weight = divide(weight, clip)\n",
                "",
            ),
        ),
    ),
    Change(
        "divisor taken from the batch",
        (
            (
                "plans/release.py",
                "return total / self.divisor",
                "drawn = None if draw.selection is None else len(draw.selection)\n"
                "        return total / (drawn or self.divisor)",
            ),
        ),
    ),
    Change(
        "noise of one step used in the next",
        (
            (
                "parts/noise.py",
                "return draw_lattice(scale, count * self.coordinates, rng)"
                ".reshape(count, *self.shape)",
                "drawn = draw_lattice(scale, count * self.coordinates, rng)"
                ".reshape(count, *self.shape)\n"
                "        drawn[1::2] = drawn[: 2 * (count // 2) : 2]\n"
                "        return drawn",
            ),
        ),
    ),
    Change(
        "one key for all fits",
        (
            (
                "parts/noise.py",
                "ChaCha(key=secrets.randbits(256), rounds=20)",
                "ChaCha(key=1, rounds=20)",
            ),
        ),
    ),
    Change(
        "with replacement, accounted as Poisson",
        (
            (
                "parts/sampling.py",
                '        return {\n            "sampling": self.name,\n'
                '            "batch_size": self.batch_size,\n'
                '            "population": self.population,\n        }',
                '        return {"sampling": "poisson", "rate": self.batch_size / self.population}',
            ),
        ),
    ),
]  # fmt: skip


def _caught(change: Change, copy: Path) -> dict[str, bool]:
    """Make the change in the copy, run all defences there, and undo it."""
    originals = {}
    for file, old, new in change.edits:
        path = copy / "stillspace" / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) != 1:
            msg = f"The text of the change {change.name!r} does not stand once in {file}."
            raise RuntimeError(msg)
        originals.setdefault(path, (text, path.stat()))
        path.write_text(text.replace(old, new), encoding="utf-8")
    try:
        result = subprocess.run(
            [sys.executable, "-c", "from evidence.defences import tell; tell()"],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}",
                "NUMBA_CACHE_DIR": str(copy.parent / "cache"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for path, (text, facts) in originals.items():
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # the cache stays valid
    if result.returncode:
        raise RuntimeError(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


def tell() -> None:
    print(json.dumps({name: _alarm(defence) for name, defence in DEFENCES.items()}))


def _alarm(defence: Callable[[], bool]) -> bool:
    try:
        return bool(defence())
    except LedgerError:  # the ledger withholds the result: the others have nothing to look at
        return False


# --- misuses of the code as it is ---------------------------------------------------------------


def printed_noise() -> dict[str, bool]:
    """The paper's noise for dp-sggd, sold at the ε that the paper states."""
    facts = Facts(500, 6, 2, 0.8, 500**-0.5, calibration="as-printed")
    plan = make_plan("dp-sggd", facts, n_iter=500, batch_size=20, start=np.eye(6)[:2])
    claim = (0.8, 500**-0.5)
    report = audit(plan, claim=claim, bounds="accuracy", runs=40, confidence=1 - 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        estimator = PrivateRobustPCA(
            2,
            epsilon=0.8,
            delta=claim[1],
            algorithm="dp-sggd",
            n_iter=50,
            calibration="as-printed",
            center=None,
        )
        fit = estimator.fit(np.eye(6)[np.arange(500) % 6])
    return {"audit": report.refuted, "refusal": not fit.privacy_.private}


def wishart() -> dict[str, bool]:
    """Wishart noise on the second moment, sold as ε = 1: impossible results give rows away."""
    n, D, epsilon = 100, 4, 1.0
    start = make_plan("dp-pca", Facts(n, D, 1, epsilon, DELTA, calibration="as-printed")).start
    tables = (np.zeros((n, D)), np.zeros((n, D)))
    tables[1][0, 0] = 1.0
    with_row = tables[1].T @ tables[1] / n
    rng = np.random.default_rng()

    def mechanism(X):
        return X.T @ X / n + start.noise(rng)

    report = audit(
        mechanism,
        claim=(epsilon, 0.0),
        neighbours=tables,
        score=lambda M: float(np.linalg.eigvalsh(M - with_row)[0]),
        runs=2000,
        confidence=1 - 1e-4,
    )
    try:
        _plan(start="wishart")
    except NotAccountedError:
        return {"audit": report.refuted, "refusal": True}
    return {"audit": report.refuted, "refusal": False}


def fitted_scaler() -> dict[str, bool]:
    """A scaler fitted on the rows before the private fit: one huge row rescales all others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3)) * (1.0, 0.3, 0.3)
    X[:, 1] += X[:, 0]
    other = X.copy()
    other[0, 0] = 1e6

    def mechanism(table):
        fitted = make_pipeline(
            StandardScaler(), PrivatePCA(1, epsilon=1.0, delta=DELTA, center=None)
        ).fit(table)
        return np.abs(fitted[-1].components_[0])

    report = audit(mechanism, claim=(1.0, DELTA), neighbours=(X, other), runs=400,
                   bounds="accuracy", confidence=1 - 1e-4)  # fmt: skip
    stated = any(
        "scaler" in line
        for line in PrivatePCA(1, delta=DELTA, center=None).fit(X).privacy_.assumptions
    )
    assert stated
    return {"audit": report.refuted}


def pairs_of_rows() -> dict[str, bool]:
    """Differences of pairs where a row may be added: one row more would change all pairs."""
    estimator = PrivateRobustPCA(
        1,
        delta=DELTA,
        center="pairs",
        neighboring_relation="add-or-remove-one",
        public_size=100,
    )
    try:
        estimator.fit(np.eye(4)[np.arange(100) % 4])
    except ValueError as error:
        return {"refusal": "pairs" in str(error)}
    return {"refusal": False}


MISUSES: dict[str, Callable[[], dict[str, bool]]] = {
    "the paper's noise for dp-sggd (SPEC 9.3)": printed_noise,
    "Wishart start sold as private": wishart,
    "pairs under add/remove": pairs_of_rows,
    "a scaler fitted on the rows": fitted_scaler,
}


def table() -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        rows += [_row(c.name, _caught(c, copy), wanted=bool(c.edits)) for c in CHANGES]
    rows += [_row(name, misuse(), wanted=True) for name, misuse in MISUSES.items()]
    return markdown(
        "Ways to break privacy, and what catches them",
        "Each change is made to a copy of the code, in which all defences run; the last rows are "
        "misuses of the code as it is. Where nothing is wrong, the audits raise an alarm once in a "
        "thousand times, the checks once in a million. A scaler cannot be refused, as `fit` never "
        "sees it: every guarantee names it among what is not covered, and an audit of the whole "
        "pipeline refutes the claim.",
        ["broken by", *COLUMNS],
        rows,
    )


def _row(name: str, found: dict[str, bool], *, wanted: bool) -> tuple[str, ...]:
    if any(found.values()) != wanted:
        msg = f"{name}: {'nothing catches it' if wanted else f'false alarm: {found}'}."
        raise RuntimeError(msg)
    return (name, *("caught" if found.get(column) else "" for column in COLUMNS))
