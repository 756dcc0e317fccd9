"""Draw the made-up table examples/patients.csv: units, ids, missing cells, outliers, a label.

Nobody in this table exists. Six measurements follow two hidden factors; one row in forty is
wrong (a height in inches, a decimal point that slipped, values typed into the wrong column).
"""

from pathlib import Path

import numpy as np

N, SEED = 48_000, 20260101
NAMES = ("age_years", "weight_kg", "height_cm", "systolic_mmhg", "creatinine_umol", "sleep_h")
CENTER = np.array([52.0, 76.0, 171.0, 128.0, 80.0, 6.9])
SPREAD = np.array([14.0, 13.0, 9.0, 16.0, 15.0, 1.1])
LOADINGS = np.array(
    [
        [0.95, 0.10, -0.35, 0.90, 0.65, -0.85],
        [-0.20, 0.95, 0.90, 0.30, 0.70, 0.40],
    ]
)
NOISE = 0.12
GROUPS = ("a", "b")
DECIMALS = (0, 1, 0, 0, 0, 1)


def draw(n=N, seed=SEED):
    """Return the clean rows, the rows as they are in the file, and the labels."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    clean = CENTER + SPREAD * (factors @ LOADINGS + NOISE * rng.standard_normal((n, 6)))
    rows = clean.copy()
    wrong = rng.permutation(n)[: n // 40]
    inches, slipped, swapped = np.array_split(wrong, 3)
    rows[inches, 2] /= 2.54
    rows[slipped, 4] *= 10.0
    rows[np.ix_(swapped, [1, 2])] = rows[np.ix_(swapped, [2, 1])]
    rows[rng.random(rows.shape) < 0.02] = np.nan
    labels = [GROUPS[int(k)] for k in rng.integers(2, size=n)]
    return np.delete(clean, wrong, axis=0), rows, labels


def lines():
    """Yield the lines of the file."""
    _, rows, labels = draw()
    yield ",".join(("patient", *NAMES, "group"))
    for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
        cells = [
            "" if np.isnan(cell) else f"{cell:.{places}f}"
            for cell, places in zip(row, DECIMALS, strict=True)
        ]
        yield ",".join((f"P{i + 1:05d}", *cells, label))


if __name__ == "__main__":
    path = Path(__file__).parent.parent / "examples" / "patients.csv"
    path.write_text("\n".join(lines()) + "\n", encoding="utf-8", newline="\n")
