"""
The outlier map
===============

The map of R's rrcov, in Python: score distance across, orthogonal distance upwards, cut-offs with
a known false-alarm rate.
"""

# %%
# Four kinds of rows: regular ones, rows far out on the subspace, rows off it, and rows that are
# both.
import matplotlib.pyplot as plt
import numpy as np

from stillspace import RobustPCA
from stillspace.diagnostics import diagnose
from stillspace.plots import OutlierMapDisplay

rng = np.random.default_rng(0)
basis = np.linalg.qr(rng.standard_normal((8, 3)))[0]
X = rng.standard_normal((300, 2)) @ basis[:, :2].T + 0.1 * rng.standard_normal((300, 8))
X[:8] += 8.0 * basis[:, 0]  # good leverage
X[8:16] += 2.0 * basis[:, 2]  # orthogonal outliers
X[16:24] += 6.0 * basis[:, 1] + 3.0 * basis[:, 2]  # bad leverage

pca = RobustPCA(n_components=2).fit(X)
OutlierMapDisplay.from_estimator(pca, X)
plt.show()

# %%
# The same as numbers. `~found.outliers` is what rrcov calls `flag`.
found = diagnose(pca, X)
for kind in ("regular", "good leverage", "orthogonal outlier", "bad leverage"):
    print(
        kind, np.flatnonzero(found.kinds == kind)[:10], "…", np.count_nonzero(found.kinds == kind)
    )
