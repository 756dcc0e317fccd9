"""diffprivlib's and OpenDP's PCA, each in an environment of its own: both are pure ε.

They depend on other versions of scikit-learn than we do, and they may need longer than anybody
waits. So they run in a child process with a limit, and having no answer is a result.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stillspace._typing import FloatArray

LIMIT = 60
"""CPU seconds for an answer: a busy machine takes nothing from anybody."""
WAIT = 1800
"""Seconds on the clock after which a process that sleeps is given up."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    name: str
    requirements: tuple[str, ...]
    script: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.requirements[0].split('==')[1]}"


_CHILD = """
import json, signal, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
path, r, epsilon, limit = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
X = np.load(path)
n, D = X.shape
{imports}
signal.setitimer(signal.ITIMER_PROF, limit)  # ends the process if no answer comes
began = time.process_time()
{fit}
seconds = time.process_time() - began
signal.setitimer(signal.ITIMER_PROF, 0)
print(json.dumps({{"seconds": seconds, "components": np.asarray(components).tolist()}}))
"""

NEIGHBOURS = (
    Neighbour(
        "diffprivlib",
        ("diffprivlib==0.6.6", "scikit-learn==1.5.2"),
        _CHILD.format(
            imports="from diffprivlib.models import PCA",
            fit="fit = PCA(n_components=r, epsilon=epsilon, data_norm=1.0, centered=True).fit(X)\n"
            "components = fit.components_",
        ),
    ),
    Neighbour(
        "OpenDP",
        ("opendp[scikit-learn]==0.16.0",),
        _CHILD.format(
            imports="import opendp.prelude as dp\n"
            'dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")',
            fit="# the origin is known, so that nothing is spent on a mean; d_in 2 is replace-one\n"
            "domain = dp.numpy.array2_domain(\n"
            "    num_columns=D, size=n, norm=1.0, p=2, origin=np.zeros(D), T=float)\n"
            "pca = dp.sklearn.decomposition.then_private_pca(\n"
            "    epsilon, norm=1.0, num_components=r)\n"
            "made = (domain, dp.symmetric_distance()) >> pca\n"
            "assert made.map(2) <= epsilon * (1 + 1e-9)\n"
            "components = made(X).Vt[:r]",
        ),
    ),
)


def install(neighbour: Neighbour, folder: Path) -> str | None:
    """Make the environment if it is not there; return why it cannot be used, or None."""
    home = folder / neighbour.name.lower()
    stamp = home / "installed.txt"
    wanted = "\n".join(neighbour.requirements)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return None
    home.mkdir(parents=True, exist_ok=True)
    try:
        _quietly([sys.executable, "-m", "venv", "--clear", str(home)])
        _quietly([str(_python(home)), "-m", "pip", "install", *neighbour.requirements])
    except (OSError, subprocess.SubprocessError):
        return f"{neighbour.label} could not be installed"
    stamp.write_text(wanted, encoding="utf-8")
    return None


def ask(
    neighbour: Neighbour, folder: Path, X: FloatArray, r: int, epsilon: float, limit: int = LIMIT
) -> dict[str, Any]:
    """Return {"components", "seconds"}, or {"none": reason}."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.npy"
        # Lengths that rounding left above 1 are cut, which OpenDP would do and count as change.
        np.save(path, X * (1.0 - 2.0**-50))
        command = [str(_python(folder / neighbour.name.lower())), "-c", neighbour.script]
        command += [str(path), str(r), repr(epsilon), str(limit)]
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=WAIT,
                env={**os.environ, **single, "PYTHONPATH": ""}, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"none": f"no answer in {limit} s"}
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return answer
    if done.returncode < 0:
        return {"none": f"no answer in {limit} s"}
    last = (done.stderr.strip().splitlines() or ["?"])[-1]
    return {"none": f"error: {last.split(':')[0]}"}


def _python(home: Path) -> Path:
    return home / ("Scripts" if os.name == "nt" else "bin") / "python"


def _quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=900)
