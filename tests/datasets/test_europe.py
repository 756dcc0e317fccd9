"""The look-alike of Europe, the loader of the published files, the stylised genotypes."""

import numpy as np
import pytest
from reproduction.europe import onto_map

from stillspace.datasets import load_popres, make_europe, make_genotypes

EIGENVALUES = np.linspace(4, 1, 20)


def write_files(folder, n=60, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n, 20))
    lines = ["   #eigvals  " + " ".join(f"{v:.3f}" for v in EIGENVALUES)]
    lines += [
        f" {i} {i} " + " ".join(f"{v:.4f}" for v in row) + " Control"
        for i, row in enumerate(scores)
    ]
    (folder / "made.out0-PCA.eigs").write_text("\n".join(lines) + "\n")
    table = ["ID\tplabels\talabels\tlongitude\tlatitude\tPC1"]
    table += [f"{i}\tSome Land\tSL\t{i / 2}\t{50 - i / 9}\t0.1" for i in reversed(range(n))]
    (folder / "PCA.txt").write_text("\n".join(table) + "\n")
    return scores


def test_the_published_files_are_read(tmp_path):
    scores = write_files(tmp_path)
    europe = load_popres(tmp_path)
    np.testing.assert_allclose(europe.scores, scores, atol=6e-5)
    np.testing.assert_allclose(europe.eigenvalues, EIGENVALUES, atol=1e-3)
    np.testing.assert_allclose(europe.places[:, 0], np.arange(60) / 2)
    assert set(europe.country) == {"SL"}


def test_wrong_folders(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        load_popres(tmp_path / "none")
    with pytest.raises(ValueError, match=r"must hold PCA\.txt and exactly one file"):
        load_popres(tmp_path)
    write_files(tmp_path)
    (tmp_path / "PCA.txt").write_text("ID\tlongitude\n1\t2\n")
    with pytest.raises(ValueError, match="separated by tabulators"):
        load_popres(tmp_path)
    (tmp_path / "made.out0-PCA.eigs").write_text("#eigvals 1 2\n1 1 0.5\n")
    with pytest.raises(ValueError, match="line of 20 eigenvalues"):
        load_popres(tmp_path)


def test_the_look_alike_mirrors_geography():
    europe = make_europe(random_state=0)
    assert europe.scores.shape == (1387, 20)
    np.testing.assert_allclose(np.linalg.norm(europe.scores, axis=0), 1.0)
    _, seen = onto_map(europe.scores[:, :2], europe.places)
    assert 0.75 < seen < 0.95  # the published scores: about 0.8
    assert onto_map(europe.scores[:, 5:7], europe.places)[1] < 0.2
    again = make_europe(random_state=0)
    np.testing.assert_array_equal(europe.scores, again.scores)
    with pytest.raises(ValueError, match=r"n_samples must be .*at least 50, got 10"):
        make_europe(10)


def test_genotypes_are_equal_thirds_and_show_the_map():
    europe = make_europe(300, random_state=1)
    X, inliers, center = make_genotypes(europe, 500, n_outliers=100, random_state=2)
    assert X.shape == (400, 500)
    assert X.dtype == np.int8
    assert inliers.sum() == 300
    assert inliers[:300].all()
    for part in (X[:300], X[300:]):
        np.testing.assert_allclose(np.bincount(part.ravel()) / part.size, 1 / 3, atol=1e-4)
    rows = X[:300] - center
    _, _, Vt = np.linalg.svd(rows)
    assert onto_map(rows @ Vt[:2].T, europe.places)[1] > 0.6
    none = make_genotypes(europe, 20, n_outliers=0, random_state=2)
    assert none.X.shape == (300, 20)


def test_correlation_is_one_for_a_turned_map_and_zero_for_none(rng):
    places = rng.standard_normal((200, 2))
    turned = places @ np.array([[0.0, -3.0], [3.0, 0.0]]) + 5
    onto, seen = onto_map(turned, places)
    assert seen == pytest.approx(1.0)
    unit = (places - places.mean(axis=0)) / np.linalg.norm(places - places.mean(axis=0))
    np.testing.assert_allclose(onto, unit, atol=1e-12)
