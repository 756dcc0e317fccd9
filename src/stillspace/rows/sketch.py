"""A public random projection to fewer columns, for data with more columns than rows (SPEC 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

from stillspace._checks import checked_whole
from stillspace._typing import FloatArray, IntArray
from stillspace.kernels.project import add_projected
from stillspace.rows.pairs import PairedRows
from stillspace.rows.stored import NO_INDEX, Ones, Scaling, Stored, code_as_stored, stored

__all__ = ["Sketch"]

_BLOCK = 64
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Sketch:
    """`x → Sx`, S a sparse sign matrix (m, D) drawn from a public seed.

    Each column of S has one entry ±1/√s in each of s = `nonzeros` stretches of rows (Kane and
    Nelson 2014), so `E SᵀS = I`, columns have unit norm, and lengths and angles of a few thousand
    rows are kept up to about √(1/m). It is fixed before any row is read: nothing that comes after
    needs more noise for it, and noise on an m × m matrix is smaller than on a D × D one.
    A row's projection has the same bits wherever the row stands.

    Parameters
    ----------
    n_features : int
        D, the number of columns of the data.
    n_components : int
        m, the number of columns after it.
    seed : int, default=0
        Public, and chosen without looking at the rows.
    nonzeros : int, default=8
        s, entries per column; at most m.

    Examples
    --------
    >>> import numpy as np
    >>> from stillspace.rows import Sketch
    >>> X = np.random.default_rng(0).standard_normal((5, 10_000))
    >>> Z = Sketch(10_000, 400).apply(X)
    >>> Z.shape, bool(abs(np.linalg.norm(Z[0]) / np.linalg.norm(X[0]) - 1) < 0.2)
    ((5, 400), True)
    """

    n_features: int
    n_components: int
    seed: int = 0
    nonzeros: int = 8

    def __post_init__(self) -> None:
        for name, low in (("n_features", 1), ("n_components", 1), ("seed", 0), ("nonzeros", 1)):
            value = checked_whole(f"{name} of a sketch", getattr(self, name), low)
            object.__setattr__(self, name, value)
        if self.nonzeros > self.n_components:
            raise ValueError(
                f"nonzeros={self.nonzeros} is above n_components={self.n_components}: a column of "
                "the sketch has at most one entry per row."
            )

    def apply(
        self,
        X: Any,
        *,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
        missing: float | None = None,
        pairs: IntArray | None = None,
    ) -> FloatArray:
        """Return `((X − center) / scale) Sᵀ`, shape (n, m); cells equal to `missing` count as 0.

        With `pairs` (k, 2) it is of the differences of these pairs of rows.

        `X` is a float64, float32, int8 or uint8 array or a sparse matrix in rows; it is not
        changed. A row with a non-finite cell comes out non-finite, and the others do not notice.
        """
        rows: Stored = stored(X)
        if pairs is not None:
            rows = PairedRows.of(rows, pairs)
        code = code_as_stored(missing, X.dtype)
        return self.project(rows, Scaling.of(rows.shape[1], center, scale, code))

    def project(self, rows: Stored, scaling: Scaling) -> FloatArray:
        """Return the projections (n, m) of stored rows, scaled as `scaling` says."""
        n, D = rows.shape
        if self.n_features != D:
            msg = f"The sketch is made for {self.n_features} columns; the rows have {D}."
            raise ValueError(msg)
        factors, entries = Ones(n), self._entries()
        out = np.empty((n, self.n_components))
        with np.errstate(all="ignore"):
            for at in range(0, n, _BLOCK):
                X = np.empty((min(_BLOCK, n - at), D))
                rows.load(NO_INDEX, at, scaling, factors, X)
                out[at : at + len(X)] = self.block(X, entries)
        return out

    def block(
        self, X: FloatArray, entries: tuple[IntArray, FloatArray] | None = None
    ) -> FloatArray:
        """Return the projections (b, m) of rows (b, D)."""
        target, sign = self._entries() if entries is None else entries
        part = np.zeros((len(X), self.n_components))
        add_projected(X, target, sign, part)
        return part

    def __str__(self) -> str:
        return f"project at random to {self.n_components} columns (public seed {self.seed})"

    def matrix(self) -> FloatArray:
        """Return S as a dense array (m, D)."""
        target, sign = self._entries()
        S = np.zeros((self.n_components, self.n_features))
        S[target, np.arange(self.n_features)[:, None]] = sign
        return S

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the seed and the sizes say everything."""
        return {"format": _FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Sketch:
        if kept.get("format") != _FORMAT:
            raise ValueError(
                f"a stored sketch has format {kept.get('format')!r}; this version reads {_FORMAT}."
            )
        return cls(**{name: value for name, value in kept.items() if name != "format"})

    def _entries(self) -> tuple[IntArray, FloatArray]:
        """Return rows and values (D, s) of the entries, from Philox: the same everywhere."""
        words = np.random.Philox(key=self.seed).random_raw(self.n_features * self.nonzeros)
        words = words.reshape(self.n_features, self.nonzeros)
        edges = np.arange(self.nonzeros + 1) * self.n_components // self.nonzeros
        widths = np.diff(edges).astype(np.uint64)
        # 63 bits modulo a width of a few hundred: uniform to 2⁻⁵⁰, far below what a sketch needs.
        target = edges[:-1] + ((words >> np.uint64(1)) % widths).astype(np.int64)
        sign = np.where(words & np.uint64(1), 1.0, -1.0) / sqrt(self.nonzeros)
        return target, sign
