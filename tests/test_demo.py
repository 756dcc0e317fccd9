"""The demo says what it computed, and draws it."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from stillspace.cli.showcase import PICTURE, Demo, draw_demo, run_demo, write_picture
from stillspace.metrics import principal_angles, subspace_error


@pytest.fixture(scope="module")
def demo() -> Demo:
    return run_demo(seed=1)


def test_numbers_agree_with_recomputed_ones(demo: Demo) -> None:
    for fit in demo.fits:
        truth = demo.data.components
        assert fit.error == subspace_error(fit.components, truth)
        cosines = np.linalg.svd(fit.components @ truth.T, compute_uv=False)
        assert fit.angle == pytest.approx(np.degrees(np.arccos(cosines.min())), abs=1e-4)
        assert np.radians(fit.angle) == pytest.approx(principal_angles(fit.components, truth)[0])


def test_the_story_holds(demo: Demo) -> None:
    pca, robust, private, both = demo.fits
    assert pca.error > 50 * both.error
    assert private.error > 50 * both.error
    assert robust.error < 1e-5
    assert both.error < 1e-3
    assert pca.angle > 5.0 > both.angle


def test_private_fits_are_private_and_the_others_do_not_say_so(demo: Demo) -> None:
    pca, robust, private, both = demo.fits
    assert pca.guarantee is None
    assert robust.guarantee is None
    for fit in (private, both):
        assert fit.guarantee is not None
        assert fit.guarantee.private
        assert 0.99 < fit.guarantee.epsilon <= 1.0
    assert demo.guarantee is both.guarantee


def test_the_seed_makes_the_rows_and_not_the_noise(demo: Demo) -> None:
    again = run_demo(seed=1)
    np.testing.assert_array_equal(again.data.X, demo.data.X)
    np.testing.assert_array_equal(again.fits[1].components, demo.fits[1].components)
    assert not np.array_equal(again.fits[3].components, demo.fits[3].components)
    assert not np.array_equal(run_demo(seed=2).data.X, demo.data.X)


def test_the_picture_states_the_computed_angles(demo: Demo) -> None:
    figure = draw_demo(demo)
    for ax, fit in zip(figure.axes, demo.fits, strict=True):
        assert ax.get_title(loc="left").startswith(fit.name)
        assert ax.get_title(loc="right") == f"{fit.angle:.1f}° off"
    words = " ".join(text.get_text() for text in figure.texts)
    found = [float(x) for x in re.findall(r"([\d.]+)°", words)]
    assert found == [round(demo.fits[0].angle), round(demo.fits[3].angle, 1)]
    assert "Synthetic data: 5000 rows" in words


def test_the_drawn_lines_are_the_fits(demo: Demo) -> None:
    """PCA leans over visibly, about as far as its worst angle; the robust fits lie flat."""
    slopes = []
    for ax in draw_demo(demo).axes:
        found = next(line for line in ax.lines if line.get_label() == "the plane that was found")
        x, y = found.get_xy2()
        slopes.append(abs(np.degrees(np.arctan2(y, x))))
    for slope, fit in zip(slopes, demo.fits, strict=True):
        assert slope <= fit.angle + 1e-6  # no line leans more than the worst angle
    assert slopes[0] > 0.8 * demo.fits[0].angle
    assert slopes[2] > 0.8 * demo.fits[2].angle


def test_no_text_overlaps_or_leaves_the_picture(demo: Demo) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = draw_demo(demo)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    texts = [*figure.texts, *figure.legends[0].get_texts()]
    for ax in figure.axes:
        texts += [ax.title, ax._left_title, ax._right_title, ax.xaxis.label, ax.yaxis.label]
    boxes = [text.get_window_extent(renderer) for text in texts if text.get_text()]
    boxes += [ax.get_window_extent(renderer) for ax in figure.axes]
    assert len(boxes) >= 20
    for i, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_the_picture_is_a_png_of_sensible_size(demo: Demo, tmp_path: Path) -> None:
    path = write_picture(demo, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / PICTURE
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", content[16:24])
    assert 1000 <= width <= 2000
    assert 800 <= height <= 2000
    assert 30_000 < len(content) < 1_000_000
    assert write_picture(demo, path.parent) == path  # a second run replaces it
