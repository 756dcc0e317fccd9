"""The page of results: how they were taken, and the tables of one run."""

from collections.abc import Sequence
from typing import Any

from benchmarks import _render
from benchmarks._rows import Row

PROSE = """\
# Benchmarks

```sh
make bench                          # everything, about 10 minutes on 2 cores; writes this page
python -m benchmarks --quick        # smaller data, about 3 minutes
python -m benchmarks fits startup --json out.json
```

This page, `results.json` and `growth.png` are written by `make bench`; do not edit them by hand.

## How they were taken

- **Ratios, in one run.** A second on one machine says little about another, and on a busy one it
  says little about itself. Ours and its peers take turns in one process, the first one rotating;
  a ratio is formed within each turn, and its median and quartiles are shown (`–`: one turn).
  Seconds are medians, for orientation. Every contestant runs once before the first turn, except
  where that would take minutes (IncrementalPCA, full SVD, dp_accounting).
- **`× its time`** is ours divided by the peer's, smaller is better; **`× faster`** is the peer's
  divided by ours, larger is better. A target is met by the median.
- **Threads.** Where a row does not name a number of threads, nobody is pinned: BLAS and our kernels
  use all cores that the process may use, as they do for users. The facts line says how many.
- **Other load.** Turns cancel what slows both sides alike. Load from other processes need not: at
  load 7 on 2 cores, `PCA(covariance_eigh)` took 6 times the wall time and 9 times the CPU time on
  two BLAS threads that it took on one, our fit about the same on both. So the share of the machine
  that others used is measured for every row (Linux), and above 10 % the row says `busy` instead
  of pass or FAIL.
- **Peers** run at the versions named in the rows, with their defaults and their own stopping
  rules. pymanopt gets the analytic gradient in its cheapest form (two products with X), and is
  shown from its own random start and from PCA's. Plain numpy is what a careful researcher writes.
  Notes give `d²` to the truth for both sides: being fast at another accuracy is no comparison.
- **Equal d**: inliers have noise .05, so that the cost has a smooth optimum and both sides reach
  the same one; the notes show how equal.
- **Start-up** runs in new processes with a compilation cache of their own. What is counted is
  everything from `import stillspace` to the end of the first fit, after scikit-learn has been
  imported, less a second fit.
- **Calibration** gets a new ε at every call, so that no cache answers. The limit can be read in two
  ways, 50 times the exact Gaussian calibration or 0.1 s: both are shown.
- **Private fits** are the default algorithm (a private second moment, a look for groups of
  outliers, damped Newton steps), unless a row names another one. They take the table as it is
  (`center=None`); rows that say "standardising" also find a centre and a scale privately.
- **The roofline** of a pass is the time of its two matrix products at the speed of a large GEMM,
  or of one read of the table if that is longer.
- **Growth** exponents are least-squares slopes of the upper half of the sizes in log-log; memory
  is the rise of the process's peak during the fit, in a process of its own. The limits on
  exponents and on memory are ours: linear in n, r and T, at most quadratic in D (the start is a
  second moment), and a tenth of X.
- No test asserts a time.
"""


def page(rows: Sequence[Row], facts: dict[str, Any]) -> str:
    return "\n".join(
        (
            PROSE,
            "## Results\n",
            f"{_render.summary(rows)}. The run took {facts['total_seconds']} s.\n",
            f"{_render.facts_line(facts)}\n",
            *((f"**{_render.caution(rows)}**\n",) if _render.caution(rows) else ()),
            _render.markdown(rows),
            "\n![Time and memory against n, D, r and T](growth.png)\n",
        )
    )
