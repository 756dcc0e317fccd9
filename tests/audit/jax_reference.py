"""Bounds by jax_privacy's auditing module, for `test_bounds.py`.

`python tests/audit/jax_reference.py > tests/audit/jax_reference.json` with jax_privacy installed
(jax itself is not needed by the tests: they read the file, and compare live where it is there).
"""

import json
from importlib.metadata import version

import numpy as np

ALPHA = 0.05
COUNTS = [  # false positives, negatives, false negatives, positives
    (0, 50, 0, 50), (3, 50, 9, 60), (40, 5000, 2000, 5000), (499, 1000, 480, 1000), (0, 7, 1, 9),
]  # fmt: skip
DELTAS = [0.0, 1e-5, 0.02]
ONE_RUN = [(360, 360, 360), (90, 100, 1000), (600, 1000, 1000), (10, 10, 10), (5, 10, 10)]


def compute():
    from jax_privacy import auditing

    rows = []
    for fp, neg, fn, pos in COUNTS:
        inside = np.r_[np.zeros(fn), np.ones(pos - fn)]
        outside = np.r_[np.ones(fp), np.zeros(neg - fp)]
        auditor = auditing.CanaryScoreAuditor(inside, outside)
        for delta in DELTAS:
            epsilon = auditor.epsilon_clopper_pearson(
                ALPHA, delta, one_sided=False, threshold_strategy=auditing.Explicit(0.5)
            )
            rows.append([fp, neg, fn, pos, delta, float(epsilon)])
    one_run = [
        [*case, delta, float(auditing._epsilon_one_run(0, case[2], case[1], case[0], ALPHA, delta))]
        for case in ONE_RUN
        for delta in DELTAS
    ]
    return {"clopper_pearson": rows, "one_run": one_run}


if __name__ == "__main__":
    print(json.dumps({"jax_privacy": version("jax_privacy"), **compute()}, indent=1))
