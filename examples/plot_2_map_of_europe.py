"""
Genomes and the map
===================

Two components of genotypes draw a map of Europe. We draw a look-alike of the well-known data set
and fit it with and without privacy.
"""

# %%
# 1387 people, 4000 markers with the values 0, 1 and 2, and 200 rows that are no genotypes.
import matplotlib.pyplot as plt
import numpy as np

from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_europe, make_genotypes

europe = make_europe(1387, random_state=0)
drawn = make_genotypes(europe, 4000, n_outliers=200, random_state=0)
middle = np.full(4000, drawn.center)

robust = RobustPCA(2, center=middle).fit(drawn.X)
private = PrivateRobustPCA(2, epsilon=4.0, center=middle, scale=None).fit(drawn.X)

# %%
# These rows are made up, so that they may be shown. Scores of real people must not be published.
people = drawn.X[drawn.inliers]


def on_the_map(fit):
    """Turn scores so that they match longitude and latitude as well as they can."""
    scores = fit.transform(people)
    scores = scores - scores.mean(axis=0)
    places = europe.places - europe.places.mean(axis=0)
    left, _, right = np.linalg.svd(scores.T @ places)
    return scores @ left @ right


figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for ax, fit, title in ((axes[0], robust, "RobustPCA"), (axes[1], private, "private, ε = 4")):
    turned = on_the_map(fit)
    ax.scatter(*turned.T, c=europe.places[:, 0], s=8, cmap="viridis")
    ax.set(title=title, xticks=[], yticks=[], xlabel="west to east", ylabel="south to north")
plt.show()
