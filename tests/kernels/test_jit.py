"""How numba functions are declared."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher

from stillspace import kernels
from stillspace.kernels import compiled, jit, passes


def test_cached_code_is_tied_to_every_file_of_the_kernels():
    folder = Path(kernels.__file__).parent
    stats = {path.name: path.stat() for path in folder.glob("*.py")}
    stamp = compiled.unit_columns._cache._cache_file._source_stamp
    assert stamp == jit._stamp()
    assert set(stamp) == {(name, s.st_mtime_ns, s.st_size) for name, s in stats.items()}


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


def test_cached_code_is_loaded_without_the_tables_of_the_compiler(tmp_path):
    """And what is not cached is compiled after it, in the same process.

    Memory is managed from the first function on that makes an array.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nfrom stillspace.kernels.jit import bare, jit\n"
        "from numba.core.runtime import nrt\n"
        "@bare\ndef set_first(x):\n    x[0] = 7.0\n"
        "few = np.zeros(2)\nset_first(few)\nprint(few, nrt.rtsys._init, end=' ')\n"
        "@jit\ndef doubled(x):\n    y = np.empty(2)\n    y[:] = 2.0 * x[3]\n    return y\n"
        "tables = 'numba.np.arraymath'\n"
        "print(doubled(np.arange(4.0)), tables in sys.modules, end=' ')\n"
        "if len(sys.argv) > 1: print(doubled(np.arange(4)), tables in sys.modules)\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [sys.executable, script, *more], env=env, capture_output=True, text=True, check=True
        ).stdout.strip()
        for more in ([], ["more"])
    ]
    assert runs == ["[7. 0.] True [6. 6.] True", "[7. 0.] False [6. 6.] False [6. 6.] True"]


def test_files_of_other_arguments_and_parts_of_files_are_compiled_again(tmp_path):
    """Two processes at once may leave the first, a full disk the second."""
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(
        "import sys\nimport numpy as np\nfrom stillspace.kernels.jit import bare\n"
        "@bare\ndef add(x, y):\n    y[0] += x[1]\n"
        "for kind in sys.argv[1:]:\n"
        "    x, y = np.arange(3, dtype=kind), np.zeros(1)\n"
        "    add(x, y)\n    print(y[0], sum(add.stats.cache_hits.values()), end=' ')\n"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}

    def ran(*kinds: str) -> str:
        command = [sys.executable, script, *kinds]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    ran("f8", "i1")
    first, second = sorted(cache.rglob("*.nbc"))
    (index,) = cache.rglob("*.nbi")
    first.write_bytes(second.read_bytes())
    assert ran("f8", "i1") == "1.0 0 1.0 1 "
    for file in (first, index):
        file.write_bytes(file.read_bytes()[:40])
        assert ran("f8") == "1.0 0 "
        assert ran("f8") == "1.0 1 "


def test_functions_that_count_no_references_keep_none():
    """An array that one of them took lives as long as before, and no longer."""
    sums, out = np.arange(64.0)[None], np.zeros((1, 8, 8))
    before = sys.getrefcount(sums), sys.getrefcount(out)
    for _ in range(100):
        passes.mirror(sums, 8, out)
    assert (sys.getrefcount(sums), sys.getrefcount(out)) == before
    upper = np.triu(sums.reshape(8, 8))
    np.testing.assert_array_equal(out[0], 100.0 * (upper + np.triu(upper, 1).T))


def test_functions_that_count_no_references_call_none_that_does():
    """Their machine code is loaded without numba's memory management, which it must not need."""
    bare, files = [], Path(kernels.__file__).parent.glob("[a-z]*.py")
    for module in (import_module(f"stillspace.kernels.{path.stem}") for path in files):
        functions = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
        bare += [function for function in functions if "_nrt" in function.targetoptions]
    assert len(bare) > 40
    for function in bare:
        known = function.py_func.__globals__
        called = [known.get(name) for name in function.py_func.__code__.co_names]
        assert not [
            each.__name__
            for each in called
            if isinstance(each, Dispatcher) and "_nrt" not in each.targetoptions
        ]
