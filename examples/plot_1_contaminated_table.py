"""
A contaminated table
====================

A quarter of the rows is wrong. Ordinary PCA follows them; `RobustPCA` does not.
"""

# %%
# We draw 600 rows near a plane in 10 dimensions, and replace a quarter of them by a cluster.
import matplotlib.pyplot as plt
from sklearn.decomposition import PCA

from stillspace import RobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.plots import EmbeddingDisplay, OutlierMapDisplay

data = make_haystack(
    600, 10, 2, inlier_ratio=0.75, inlier_noise=0.1, outliers="cluster", random_state=0
)
robust = RobustPCA(n_components=2, center=None).fit(data.X)
ordinary = PCA(n_components=2).fit(data.X)
print("d² of ordinary PCA:", subspace_error(ordinary.components_, data.components))
print("d² of RobustPCA:   ", subspace_error(robust.components_, data.components))

# %%
# The outlier map tells the rows apart without knowing which ones are wrong.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
EmbeddingDisplay.from_estimator(robust, data.X, labels=data.inliers, ax=axes[0])
OutlierMapDisplay.from_estimator(robust, data.X, named=0, ax=axes[1])
plt.show()
