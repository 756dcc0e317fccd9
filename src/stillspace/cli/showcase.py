"""What `stillspace demo` shows: one contaminated data set, four fits, one picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from stillspace._files import write_atomically
from stillspace._typing import FloatArray
from stillspace.datasets import Haystack, make_haystack
from stillspace.estimators import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.metrics import principal_angles, subspace_error
from stillspace.plots import Panel, draw_side_views
from stillspace.plots._figure import png
from stillspace.privacy import Guarantee

PICTURE = "stillspace-demo.png"
N_SAMPLES, N_FEATURES, N_COMPONENTS = 5000, 20, 2
INLIER_RATIO = 0.7


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """One method's answer, and how far it is from the truth."""

    name: str
    components: FloatArray
    error: float
    """d², the sum of squared principal angles."""
    angle: float
    """The largest principal angle, in degrees."""
    guarantee: Guarantee | None
    """None for methods that promise no privacy."""


@dataclass(frozen=True, slots=True, eq=False)
class Demo:
    """The synthetic rows with their truth, and the four fits: two plain, two robust."""

    data: Haystack
    fits: tuple[Fit, Fit, Fit, Fit]
    """PCA, RobustPCA, PrivatePCA, PrivateRobustPCA."""

    @property
    def guarantee(self) -> Guarantee:
        """What the private robust fit promises."""
        guarantee = self.fits[-1].guarantee
        assert guarantee is not None
        return guarantee


def run_demo(seed: int = 0, epsilon: float = 1.0) -> Demo:
    """Draw the rows from `seed` and fit them four times.

    Only the synthetic rows are seeded. The noise of the two private fits is the real thing, from
    the system's entropy, so their numbers differ a little from run to run.
    """
    data = make_haystack(
        N_SAMPLES,
        N_FEATURES,
        N_COMPONENTS,
        inlier_ratio=INLIER_RATIO,
        inlier_noise=0.05,
        outliers="cluster",
        cluster_spread=0.3,
        random_state=seed,
    )
    methods: tuple[tuple[str, Any], ...] = (
        ("PCA (scikit-learn)", PCA(N_COMPONENTS)),
        ("RobustPCA", RobustPCA(N_COMPONENTS, center=None)),
        ("PrivatePCA", PrivatePCA(N_COMPONENTS, epsilon=epsilon, center=None)),
        ("PrivateRobustPCA", PrivateRobustPCA(N_COMPONENTS, epsilon=epsilon, center=None)),
    )
    pca, robust, private, both = (_fit(name, method, data) for name, method in methods)
    return Demo(data, (pca, robust, private, both))


def _fit(name: str, method: Any, data: Haystack) -> Fit:
    method.fit(data.X)
    guarantee: Guarantee | None = getattr(method, "privacy_", None)
    return Fit(
        name=name,
        components=method.components_,
        error=subspace_error(method.components_, data.components),
        angle=float(np.degrees(principal_angles(method.components_, data.components)[0])),
        guarantee=guarantee if guarantee is not None and guarantee.private else None,
    )


def draw_demo(demo: Demo) -> Any:
    """Return the picture: the four subspaces seen from the side, over the same rows."""
    panels = [Panel(_caption(fit), f"{fit.angle:.1f}° off", fit.components) for fit in demo.fits]
    pca, both = demo.fits[0], demo.fits[-1]
    title = (
        f"Wrong rows tilt PCA by {pca.angle:.0f}°. "
        f"The private robust fit is {both.angle:.1f}° from the truth."
    )
    n, D = demo.data.X.shape
    good = round(100 * demo.data.inliers.mean())
    note = (
        f"Synthetic data: {n} rows, {D} columns; {good} % lie near a plane, the others in one "
        "wrong cluster. The plane is seen edge-on; the angle is the worst principal angle to the "
        "true plane. Rows are drawn because they are invented: a private "
        "fit publishes its plane and never the rows. All planes are drawn through the origin; "
        "scikit-learn's PCA centres the rows first, the other three do not."
    )
    X, truth, inliers, _center = demo.data
    return draw_side_views(X, inliers, truth, panels, title=title, note=note)


def _caption(fit: Fit) -> str:
    if fit.guarantee is None:
        return f"{fit.name}, not private"
    return f"{fit.name}, ε = {fit.guarantee.epsilon:.3g}"


def write_picture(demo: Demo, folder: Path) -> Path:
    """Draw the picture into `folder`, which is made if need be, and return its path."""
    content = png(draw_demo(demo))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PICTURE
    write_atomically(path, content)
    return path
