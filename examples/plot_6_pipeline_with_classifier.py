"""
A pipeline with a classifier
============================

`RobustPCA` takes the place of PCA before a classifier. Some training rows are damaged.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from stillspace import RobustPCA

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
rng = np.random.default_rng(0)
scores = {"PCA": [], "RobustPCA": []}
shares = (0.0, 0.05, 0.1, 0.2)
for share in shares:
    damaged = X_train.copy()
    bad = rng.choice(len(damaged), int(share * len(damaged)), replace=False)
    damaged[bad] += 60.0 * rng.standard_normal((8, X.shape[1]))[rng.integers(0, 8, len(bad))]
    for name, reducer in (("PCA", PCA(8)), ("RobustPCA", RobustPCA(8))):
        reducer.fit(damaged)
        classifier = LogisticRegression(max_iter=2000).fit(reducer.transform(X_train), y_train)
        scores[name].append(classifier.score(reducer.transform(X_test), y_test))

# %%
# With eight components, PCA spends them on the damage; the classifier suffers.
figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
for name, found in scores.items():
    ax.plot(shares, found, marker="o", label=name)
ax.set(xlabel="share of damaged rows", ylabel="accuracy on clean rows")
ax.legend(frameon=False)
plt.show()

# %%
# In a pipeline it is one word.
pipe = make_pipeline(RobustPCA(8), LogisticRegression(max_iter=2000)).fit(X_train, y_train)
print(pipe.score(X_test, y_test))
