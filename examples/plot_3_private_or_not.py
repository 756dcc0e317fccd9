"""
What privacy costs
==================

The squared error d² of the same table at several ε, next to the non-private fit.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error

data = make_haystack(5000, 20, 2, inlier_ratio=0.7, inlier_noise=0.1, random_state=0)
epsilons = np.geomspace(0.1, 10, 7)


def errors(estimator):
    """Return d² at each ε."""
    found = []
    for epsilon in epsilons:
        fit = estimator(2, epsilon=epsilon, delta=1e-6, center=None, scale=None).fit(data.X)
        found.append(subspace_error(fit.components_, data.components))
    return found


figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.loglog(epsilons, errors(PrivatePCA), marker="s", label="PrivatePCA")
ax.loglog(epsilons, errors(PrivateRobustPCA), marker="o", label="PrivateRobustPCA")
without = subspace_error(RobustPCA(2, center=None).fit(data.X).components_, data.components)
ax.axhline(without, color="0.4", linestyle=":", label="RobustPCA, not private")
ax.set(xlabel="ε", ylabel="squared error d²")
ax.legend(frameon=False)
plt.show()

# %%
# The planner predicts these curves from public facts, before a budget is spent.
from stillspace.plots import PlannerDisplay  # noqa: E402
from stillspace.prediction import predict  # noqa: E402

PlannerDisplay.from_prediction(predict(5000, 20, 2, epsilon=1.0, delta=1e-6))
plt.show()
