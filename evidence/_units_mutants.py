"""Changes of units that are found again without a group, and of the rows without cells."""

from evidence._mutant import LOOK, Mutant
from evidence._staged_mutants import MAPS, STANDARDISER

LOOKS = "methods/outlier_look/method.py"

UNITS = [
    Mutant(
        "the second standardiser left out of what is spent",
        LOOKS,
        "spent = state.screening.spent + state.share + self.rule.rest_share",
        "spent = state.screening.spent + self.rule.rest_share",
        LOOK,
    ),
    Mutant(
        "the moment in new units left out of what is spent",
        LOOKS,
        "spent = state.screening.spent + state.share + self.rule.rest_share",
        "spent = state.screening.spent + state.share",
        LOOK,
    ),
    Mutant(
        "the second standardiser takes all that there is",
        LOOKS,
        "(query, state.share * share)",
        "(query, share)",
        LOOK,
    ),
    Mutant(
        "the second standardiser counts the group, too",
        LOOKS,
        "(self._without(state.screening),), whole=True",
        "(), whole=True",
        LOOK,
    ),
    Mutant(
        "the group comes back in the new units",
        LOOKS,
        "view = (self._without(state.screening), affine, Sphere())",
        "view = (affine, Sphere())",
        LOOK,
    ),
    Mutant(
        "the moment is that of the old units",
        "methods/outlier_look/method.py",
        "return Ask(point, shares, self.through, self.whole, sampling)",
        "return Ask(point, shares, self.left_out and (caps_of(self.left_out),), False, sampling)",
        LOOK,
    ),
    Mutant(
        "rows without cells count as zeros",
        "rows/memory.py",
        "factors = np.where(seen._kept(row_map.caps), 1.0, np.nan)",
        "factors = np.where(seen._kept(row_map.caps), 1.0, 0.0)",
        MAPS,
    ),
    Mutant(
        "centring gives rows their cells back",
        "rows/memory.py",
        "return self._like(**facts, factors=self._factors, bounded=False)",
        "return self._like(**facts, bounded=False)",
        MAPS,
    ),
    Mutant(
        "sparse rows without cells keep their zeros",
        "kernels/storage.py",
        " or math.isnan(factor)",
        "",
        MAPS,
    ),
    Mutant(
        "rows are left out as their later units show them",
        "rows/memory.py",
        "seen = self.through(row_map.affine).through(Sphere())",
        "seen = self.through(Sphere())",
        MAPS,
    ),
    Mutant(
        "a region may stand anywhere in a view",
        "rows/maps.py",
        "allowed = place == 0",
        "allowed = True",
        MAPS,
    ),
    Mutant(
        "a plan that runs alone gets raw rows",
        "run/__init__.py",
        "    if raw is None:\n        msg",
        "    raw = rows if raw is None else raw\n    if raw is None:\n        msg",
        LOOK,
    ),
    Mutant(
        "an audit is told the stage's view for a pass over raw rows",
        "run/__init__.py",
        "observation.view if observation.whole else (*view, *observation.view)",
        "(*view, *observation.view)",
        LOOK,
    ),
    Mutant(
        "medians are those of all cells, missing ones among them",
        "methods/standardiser/belief.py",
        "there = self.present[column]",
        "there = 1.0",
        STANDARDISER,
    ),
    Mutant(
        "kept groups are looked for and left out",
        LOOKS,
        "if not self.leave_out or kappa < rule.weak",
        "if kappa < rule.weak",
        LOOK,
    ),
    Mutant(
        "every group is foreign",
        LOOKS,
        "_relative_variance(rest, group.direction, mean) < rule.native",
        "True",
        LOOK,
    ),
]
