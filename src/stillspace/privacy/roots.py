"""One root finder for inequalities: it returns a point where the promise holds."""

from __future__ import annotations

import math
from collections.abc import Callable

_FAR = 600.0


def smallest_root(
    excess: Callable[[float], float], start: float, slope: float, tolerance: float
) -> float | None:
    """Return x with excess(x) <= 0, at most about `tolerance` above the smallest such x.

    `excess` falls in x, with a slope near `slope` < 0. Secant steps aim half a tolerance above the
    root and stay inside the bracket, which is halved when they do not shrink it. None: no such x.
    """
    low, high = -math.inf, math.inf  # excess(low) > 0 >= excess(high)
    at, last, width = start, (math.nan, math.nan), math.inf
    for i in range(200):
        value = excess(at)
        low, high = (at, high) if value > 0 else (low, at)
        if math.isfinite(value) and math.isfinite(last[1]) and at != last[0]:
            secant = (value - last[1]) / (at - last[0])
            slope = secant if secant < 0 else slope
        last = (at, value)
        root = at - value / slope if math.isfinite(value) else math.copysign(math.inf, value)
        if value <= 0 and at - root <= tolerance:
            return at
        if high - low <= tolerance:
            return high
        if low > _FAR or high < -_FAR:
            break
        at = min(max(root + tolerance / 2, at - 3.0), at + 3.0)
        stuck = i % 3 == 2 and high - low > width / 2
        if not low < at < high or stuck:
            at = (low + high) / 2 if high - low < math.inf else at
        width = high - low if i % 3 == 2 else width
    return high if high < math.inf else None
