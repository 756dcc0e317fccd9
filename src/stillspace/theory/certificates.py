"""What the theory says about a fit, its own split of the rows put in for the labels.

`certify` is for robust fits: it computes every number from rows without noise. A private fit has a
certificate of its own, `est.certificate_`, if it was asked for summaries=("certificate",).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stillspace._checks import checked_number
from stillspace._typing import FloatArray
from stillspace.diagnostics import check_leave, diagnose
from stillspace.methods.certificate import PrivateCertificate
from stillspace.theory import _checks
from stillspace.theory.reaper import ReaperStability, reaper_stability
from stillspace.theory.stability import Stability, stability
from stillspace.theory.starts import StartCondition, pca_start


@dataclass(frozen=True, slots=True)
class Certificate:
    """Plug-in statistics of a fit; `str()` says what is certified and what is estimated."""

    glad: Stability
    reaper: ReaperStability
    start: StartCondition
    inlier_share: float
    noise: float
    """Median distance of the rows taken as inliers to the subspace, on the sphere."""

    def __str__(self) -> str:
        glad, reaper = self.glad, self.reaper
        return (
            f"Certified, for the table in which the {self.inlier_share:.0%} of rows nearest to the "
            "fitted subspace lie on it exactly: "
            f"stability γP − A is at least {glad.lower:.3g} ({glad.verdict} at γ = {glad.gamma:g}; "
            f"at most {glad.upper:.3g}), REAPER's at least {reaper.lower:.3g}, and PCA starts "
            f"within cos θ ≥ {self.start.cosine:.3g}. "
            "Only estimated: that these rows are the true inliers. They are in fact "
            f"{self.noise:.3g} away (median, on the sphere); what that does to the optimum is not "
            "covered."
        )


def certify(
    fit: Any, X: Any, *, gamma: float = 0.9, inliers: Any = None, rows_may_be_seen: bool = False
) -> Certificate:
    """Return the plug-in certificate of a fitted `RobustPCA` on its own rows.

    Parameters
    ----------
    fit : RobustPCA
        Fitted. A private fit is refused unless `rows_may_be_seen`: the certificate is computed
        from the rows themselves and no guarantee covers it. For a private fit use
        summaries=("certificate",).
    X : array of shape (n, D)
        The rows of the fit.
    gamma : float
        The neighbourhood cos θ_max ≥ γ that stability is asked of.
    inliers : array of n booleans, optional
        By default the rows that `stillspace.diagnostics` does not flag as far from the subspace.
    """
    check_leave(fit, rows_may_be_seen)
    if inliers is None:
        found = diagnose(fit, X, rows_may_be_seen=rows_may_be_seen)
        inliers = ~found.orthogonal_outliers
    inliers = np.asarray(inliers, dtype=bool)
    centred = np.concatenate(list(fit._centred(np.asarray(X, dtype=np.float64))))
    length = _checks.norms(centred)
    sphere = centred / np.where(length > 0.0, length, 1.0)[:, None]
    V = fit.components_.T
    inner, outer = sphere[inliers], sphere[~inliers]
    flat = inner @ V @ V.T
    distance = _checks.norms(inner - flat)
    width = _checks.norms(flat)
    flat = flat / np.where(width > 0.0, width, 1.0)[:, None]
    r = V.shape[1]
    return Certificate(
        glad=stability(flat, outer, r, gamma=gamma),
        reaper=reaper_stability(flat, outer, fit.components_),
        start=pca_start(flat, outer, r, gamma=gamma),
        inlier_share=float(inliers.mean()),
        noise=float(np.median(distance)) if len(distance) else 0.0,
    )


def exact_certificate(X: Any, components: Any, cut: float) -> PrivateCertificate:
    """Return what a private certificate would hold without noise: theorem 3 for rows in the open.

    Parameters
    ----------
    X : array of shape (n, D)
        Rows on the unit sphere, or zero rows.
    components : array of shape (r, D)
        The subspace.
    cut : float
        Rows within this distance of the subspace are near.
    """
    rows = _checks.rows("X", X)
    V: FloatArray = np.linalg.qr(_checks.rows("components", components, rows.shape[1]).T)[0]
    cut = checked_number("cut", cut, 0.0, 1.0)
    Y = rows @ V
    distance = _checks.norms(rows - Y @ V.T)
    near, n = distance < cut, len(rows)
    far = rows[~near]
    return PrivateCertificate.of(
        V,
        cut,
        (Y[near].T @ Y[near] / n, 0.0),
        (float(distance[near].sum()) / n, 0.0),
        (far.T @ far / n, 0.0),
    )
