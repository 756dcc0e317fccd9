"""
Choosing the number of components
=================================

`n_components="auto"` looks at how distances fall with the number of components.
"""

# %%
# The rows lie near a subspace of dimension 3; a third of them are outliers.
import matplotlib.pyplot as plt

from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.plots import DimensionDisplay, ScreeDisplay

data = make_haystack(4000, 12, 3, inlier_ratio=0.67, inlier_noise=0.1, random_state=1)
robust = RobustPCA("auto").fit(data.X)
print("RobustPCA found", robust.n_components_)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
DimensionDisplay.from_estimator(robust, ax=axes[0])
ScreeDisplay.from_estimator(robust, ax=axes[1])
plt.show()

# %%
# The private estimator chooses from a release that it needs anyway. It costs nothing.
private = PrivateRobustPCA("auto", epsilon=1.0, center=None, scale=None).fit(data.X)
print("PrivateRobustPCA found", private.n_components_)
