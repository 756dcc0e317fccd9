"""A run that is killed goes on where it was, and leaves no process behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from reproduction.cells import Cell
from reproduction.columns import Setting
from reproduction.store import Store
from reproduction.workers import run_cells

CELLS = [
    Cell("kill", Setting(150, 4, n_iter=20), "dp-SGGD", "as-printed", i, 1) for i in range(400)
]

SCRIPT = """
import sys
from multiprocessing import active_children
from pathlib import Path
from reproduction.store import Store
from reproduction.workers import run_cells
from tests.reproduction.test_kills import CELLS

if __name__ == "__main__":
    def done(cell):
        print(*[child.pid for child in active_children()], flush=True)
    run_cells(CELLS, Store(Path(sys.argv[1])), workers=2, done=done)
"""


def gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_run_goes_on(tmp_path):
    script, folder = tmp_path / "run.py", tmp_path / "cells"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    with subprocess.Popen(
        [sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stdout is not None
        workers = [int(pid) for pid in child.stdout.readline().split()]
        child.send_signal(signal.SIGKILL)
    assert workers
    limit = time.monotonic() + 60
    while not all(gone(pid) for pid in workers):
        assert time.monotonic() < limit, "a worker outlived its parent"
        time.sleep(0.05)

    store = Store(folder)
    kept = [cell for cell in CELLS if store.load(cell) is not None]
    assert 1 <= len(kept) < len(CELLS)
    for path in folder.glob("*.json"):  # whole files only
        json.loads(path.read_text())
    before = {cell: store.path(cell).stat().st_mtime_ns for cell in kept}
    wanted = [*kept, *[c for c in CELLS if c not in before][:3]]
    run_cells(wanted, store, workers=1)
    fresh = Store(tmp_path / "fresh")
    run_cells(wanted, fresh, workers=1)
    for cell in wanted:
        errors = [[run["error"] for run in s.load(cell)["runs"]] for s in (store, fresh)]
        assert errors[0] == errors[1]
    assert before == {cell: store.path(cell).stat().st_mtime_ns for cell in kept}


def test_an_error_in_a_worker_is_told(tmp_path):
    bad = [Cell("bad", Setting(150, 4, n_iter=5), "dp-nothing", "honest", i) for i in range(2)]
    with pytest.raises(ValueError, match="Unknown algorithm 'dp-nothing'"):
        run_cells(bad, Store(tmp_path), workers=2)
    assert not list(tmp_path.glob("*.json"))
