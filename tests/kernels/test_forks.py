"""A fork waits until other threads have compiled: a child never finds numba's lock locked."""

import subprocess
import sys

PATIENCE = 120.0
"""Seconds after which the program counts as hung; its work takes a few."""

PROGRAM = """
import os, threading
import numpy as np
from stillspace.kernels.jit import jit
from numba.core.compiler_lock import global_compiler_lock

compiling, never = threading.Event(), threading.Event()

def compile_for_a_while():
    with global_compiler_lock:
        compiling.set()
        never.wait(0.5)

thread = threading.Thread(target=compile_for_a_while)
thread.start()
compiling.wait()
child = os.fork()
if child == 0:
    import numba
    print(numba.njit(lambda x: x + 1)(1), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
print(global_compiler_lock.is_locked())
"""


def test_a_fork_while_another_thread_compiles():
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        timeout=PATIENCE,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["2", "False"]
