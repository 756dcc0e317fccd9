"""The pages about files and clusters: their code runs as it stands."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from stillspace.rows.sources import SUFFIXES

DOCS = Path(__file__).parent.parent / "docs"


def ran(name):
    """Run the Python blocks of a page, one after another; return what they defined."""
    blocks = re.findall(
        r"```python\n(.*?)```", (DOCS / name).read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    space = {}
    for block in blocks:
        exec(compile(block, name, "exec"), space)
    return space


def test_from_a_bed_file_to_a_private_embedding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = ran("bed.md")
    assert space["est"].sketch_ is not None
    scores, group = space["scores"][:, 0], space["group"]
    assert scores.shape == (800,)
    # The groups differ: |t| of two samples is above 10; without a signal it is below 6 but for 1e-8
    a, b = scores[group == 0], scores[group == 1]
    assert abs(a.mean() - b.mean()) > 10 * np.hypot(
        a.std() / len(a) ** 0.5, b.std() / len(b) ** 0.5
    )


def test_on_a_dask_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        space = ran("cluster.md")
    assert space["private"].privacy_.private


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_every_format_is_listed(suffix):
    assert f"`{suffix}`" in (DOCS / "scale.md").read_text(encoding="utf-8")
