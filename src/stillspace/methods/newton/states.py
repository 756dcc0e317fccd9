"""What the damped Newton method knows between two passes: public facts and releases alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import TypeAlias

from stillspace._typing import FloatArray
from stillspace.methods.newton.belief import Belief
from stillspace.methods.newton.routes import NEWTON
from stillspace.methods.newton.rule import NewtonRule
from stillspace.methods.newton.spread import Spread
from stillspace.methods.outlier_look import LookState, Screening
from stillspace.methods.spectrum import Spectrum
from stillspace.parts.sampling import All, RowPart
from stillspace.plans.adaptive import LEAST_SHARE, Allowance
from stillspace.plans.ledger import ALL


@dataclass(frozen=True, slots=True, eq=False)
class Looking:
    """Before the steps: the look for outliers goes on."""

    allowance: Allowance
    look: LookState


@dataclass(frozen=True, slots=True, eq=False)
class TopUp:
    """After the look: a second release of the second moment is asked for."""

    allowance: Allowance
    screening: Screening
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """In the loop."""

    allowance: Allowance
    screening: Screening
    start: FloatArray
    spectrum: Spectrum
    """Of the start."""
    parts: tuple[float, float, float]
    """Shares of gradient, scalar and matrix over the whole loop, in the usual number of steps."""
    belief: Belief
    spread: Spread
    """What the noise so far makes of the error."""
    spent: float
    rule: NewtonRule
    sampling: All | RowPart = ALL
    """Which rows the next step reads."""
    widened: bool = False
    """Whether steps read some of the rows before, and all of them now."""
    k: int = 0
    cut: float = inf
    end: int | None = None
    """The step after which the second phase ends; None in the first."""
    check: tuple[int, float] | None = None
    """The step that tells whether the second phase must be longer, and s when it began."""
    doubt: bool = False
    incomplete: float = 0.0
    """The released share of rows with missing cells, if it is clearly above 0: they are filled."""
    route: str = NEWTON

    @property
    def kappa(self) -> float:
        """κ̂ of the start, as if it had the whole budget."""
        return self.spectrum.kappa / sqrt(self.screening.moment.share)

    @property
    def pca_error(self) -> float:
        """d² that noise leaves if the loop's share goes to second moments: private PCA."""
        moment = self.screening.moment
        return self.spectrum.pca_error(self._unit / sqrt(moment.share + sum(self.parts)))

    @property
    def gradient_error(self) -> float:
        """d² that noise leaves if the loop's share goes to gradients, as far as H is known."""
        values, U = self.belief.axes
        weights = (U**2 @ values) / self.spectrum.squares
        return self.spectrum.pca_error(self._unit / sqrt(self.parts[0]), factors=4.0 / weights**2)

    @property
    def _unit(self) -> float:
        return self.screening.moment.sd * sqrt(self.screening.moment.share)

    @property
    def cost(self) -> float:
        """What the next step adds to the share that is spent: a round over the parts pays once."""
        later = isinstance(self.sampling, RowPart) and self.sampling.number > 0
        return 0.0 if later else sum(self.shares)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the next step's three releases."""
        gradient, scalar, matrix = self.parts
        if self.end is None:
            rule = self.rule
            steps = rule.first_steps + rule.last_steps
            first = rule.first_part * gradient / rule.first_steps, scalar / steps, matrix / steps
            if isinstance(self.sampling, RowPart):
                more = rule.divided * self.sampling.parts
                return more * first[0], more * first[1], more * first[2]
            return first
        each = (1.0 - self.spent) / (self.end - self.k) / (gradient + scalar + matrix)
        return gradient * each, scalar * each, matrix * each

    @property
    def divisible(self) -> bool:
        """Whether the shares of the next step are large enough for a part of the rows."""
        return all(share == 0.0 or share >= LEAST_SHARE for share in self.shares)


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """Between two steps: the rows with missing cells are counted."""

    steps: Steps


@dataclass(frozen=True, slots=True, eq=False)
class LastMoment:
    """All that is left goes to one more second moment; `steps` is what the loop found, if any."""

    screening: Screening
    share: float
    route: str
    steps: Steps | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The end."""

    V: FloatArray
    screening: Screening
    error: float
    route: str


NewtonState: TypeAlias = Looking | TopUp | Steps | Counting | LastMoment | Found
