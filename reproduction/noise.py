"""The variances that the paper prints for its stochastic methods, and the ε of each, by sampling.

Nothing is run here: σ is a formula, and ε follows from σ, the sampling and the relation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from reproduction.cells import Result
from reproduction.columns import Setting, paper_plan, true_epsilon
from reproduction.tables import Row, Table, number, pick
from stillspace import __version__
from stillspace.parts.sampling import Poisson, Sampling, WithoutReplacement, WithReplacement
from stillspace.plans.fixed import Plan
from stillspace.plans.starts import RandomStart
from stillspace.privacy import Relation

FORMULAS = ("as printed", "without (B/n)²", "with B² (REAPER's theorem)")
"""T log(1/δ)/(ε² n²) times (B/n)², times 1, and times B²."""
METHODS = ("dp-SGGD", "dp-SGD-REAP")
"""dp-SMD-REAP has the noise of dp-SGD-REAP."""


@dataclass(frozen=True, slots=True)
class NoiseCell:
    """The ε of all printed variances of the stochastic methods in one setting."""

    setting: Setting

    @property
    def cost(self) -> float:
        """Estimated seconds."""
        return 10.0

    @property
    def label(self) -> str:
        """A name for people and for the file."""
        return f"noise-n{self.setting.n}-D{self.setting.D}"

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        return {"version": __version__, "experiment": "noise", **asdict(self)}

    def compute(self) -> Result:
        """Return one row per method, formula, sampling and relation."""
        return {"rows": [row for method in METHODS for row in self._rows(method)]}

    def _rows(self, method: str) -> Table:
        plan = paper_plan(method, self.setting, "without-misprint")
        assert plan.release is not None
        n, B = self.setting.n, int(plan.release.divisor)
        right = plan.release.sigma(0) / plan.release.divisor
        samplings: tuple[tuple[Sampling, Relation], ...] = (
            (WithReplacement(B, n), "replace-one"),
            (WithoutReplacement(B, n), "replace-one"),
            (Poisson(B / n), "replace-one"),
            (Poisson(B / n), "add-or-remove-one"),
        )
        rows = []
        for formula, factor in zip(FORMULAS, (B / n, 1.0, float(B)), strict=True):
            for sampling, relation in samplings:
                sigma = factor * right
                true = true_epsilon(_with(plan, sampling, relation, sigma), self.setting.delta)
                rows.append(
                    {
                        "method": method,
                        "formula": formula,
                        "batch_size": B,
                        "sigma": sigma,
                        "sampling": sampling.name,
                        "relation": relation,
                        "true_epsilon_of_loop": true.loop,
                        "epsilon_is": true.kind,
                    }
                )
        return rows


def _with(plan: Plan, sampling: Sampling, relation: Relation, sigma: float) -> Plan:
    """Return the loop of a plan with another sampling and σ on the mean gradient."""
    assert plan.release is not None
    release = replace(plan.release, sampling=sampling, relation=relation)
    z = sigma * release.divisor / release.unit
    start = RandomStart(1, plan.n_components)
    return replace(plan, start=start, release=replace(release, z=z))


def noise_text(table: Table) -> str:
    """Say what the three printed variances really give."""
    parts = []
    for method in METHODS:
        for formula in FORMULAS:
            rows = pick(table, method=method, formula=formula)
            sigma = number(rows[0], "sigma")
            parts.append(f"{method} {formula}, σ = {sigma:.3g}: {_epsilons(rows)}")
    return (
        "The paper prints three variances for the stochastic methods, c₂ T log(1/δ)/(ε² n²) times "
        "(B/n)², and times B² in REAPER's theorem; the proof that it cites (Abadi et al.) gives "
        "neither factor. True ε of the loop at the claimed "
        f"ε: {'; '.join(parts)}. (c₂ = 1 is our choice: the paper leaves it open.)"
    )


def _epsilons(rows: Table) -> str:
    texts = []
    for row in rows:
        bound = row["epsilon_is"] == "upper bound" and number(row, "true_epsilon_of_loop") > 0
        sign = "≤ " if bound else ""
        texts.append(f"{sign}{_short(row)} ({_words(row)})")
    return ", ".join(texts)


def _short(row: Row) -> str:
    return f"{number(row, 'true_epsilon_of_loop'):.3g}"


def _words(row: Row) -> str:
    relation = "add/remove" if row["relation"] == "add-or-remove-one" else "replace"
    sampling = str(row["sampling"]).replace("-", " ").replace("poisson", "Poisson")
    return f"{sampling}, {relation}"
