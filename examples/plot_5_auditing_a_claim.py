"""
Auditing a claim
================

An audit runs a mechanism on two tables that differ in one row, and guesses which one was used. A
claim that is true stands; a claim that is too good falls.
"""

# %%
# One mechanism, and two claims about it: ε = 4, which is true at this δ, and ε = 0.3, which is not.
import matplotlib.pyplot as plt
import numpy as np

from stillspace.audit import audit
from stillspace.plots import AuditDisplay

tables = np.zeros((2, 2)), np.eye(2)

rng = np.random.default_rng(0)


def noisy_sum(X):
    """Release a sum with Gaussian noise: μ = 1."""
    return float(X.sum()) / 2.0 + rng.standard_normal()


honest = audit(noisy_sum, claim=(4.0, 1e-5), neighbours=tables, runs=2000, random_state=0)
wrong = audit(noisy_sum, claim=(0.3, 1e-5), neighbours=tables, runs=2000, random_state=0)
print(honest.verdict)
print(wrong.verdict)

# %%
# The orange region begins where chance ends.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
AuditDisplay.from_report(honest, ax=axes[0])
axes[0].set_title("claimed ε = 4")
AuditDisplay.from_report(wrong, ax=axes[1])
axes[1].set_title("claimed ε = 0.3")
plt.show()
