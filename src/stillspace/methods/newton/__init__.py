"""The damped private Newton method with a late cut and a way back to private PCA (docs/newton.md).

A method as `stillspace.plans.adaptive` defines it: it sees public facts and releases, and chooses
the next release from them. Nothing here is random and nothing reads a row. Means are over the
public number of rows; shares are of μ² and add up to 1.
"""

from stillspace.methods.newton.chosen import ChosenNewton
from stillspace.methods.newton.method import DampedNewton
from stillspace.methods.newton.rule import NEWTON_RULE, NewtonRule

__all__ = ["NEWTON_RULE", "ChosenNewton", "DampedNewton", "NewtonRule"]
