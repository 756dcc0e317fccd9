"""How numba functions are declared."""

import os
import subprocess
import sys
from pathlib import Path

from stillspace import kernels
from stillspace.kernels import compiled, jit


def test_cached_code_is_tied_to_every_file_of_the_kernels():
    folder = Path(kernels.__file__).parent
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    stamp = compiled.unit_columns._cache._cache_file._source_stamp
    assert stamp == jit._stamp()
    assert stamp[0] == newest


def test_kernels_run_where_no_cache_can_be_written(tmp_path):
    """A cache directory below a file cannot be made: compiled anew, same numbers."""
    (tmp_path / "file").write_text("no folder")
    code = (
        "import numpy as np; from stillspace.kernels.jit import jit\n"
        "@jit\ndef twice(x): return 2 * x\nprint(twice(21))"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file" / "below")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "42", done.stderr
