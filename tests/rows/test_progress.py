"""The line that tells how far a fit is."""

import io

import numpy as np

from stillspace import RobustPCA
from stillspace.parts.queries import SecondMoment
from stillspace.rows import MemoryRows
from stillspace.rows import progress as module
from stillspace.rows.progress import Progress, in_time, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_passes_and_others_see_nothing(monkeypatch):
    monkeypatch.setattr(module, "DELAY", 0.0)
    monkeypatch.setattr(module, "PAUSE", 0.0)
    X = np.random.default_rng(0).standard_normal((50, 4))
    for stream, wanted in ((Terminal(), True), (Terminal(), False), (io.StringIO(), True)):
        with progress(wanted, 2, stream):
            rows = MemoryRows.prepare(X)
            rows.add(SecondMoment(4), np.empty((0, 0)), None)
        shown = stream.getvalue()
        assert ("of at most 2" in shown) == (wanted and stream.isatty())
        if shown:
            assert shown.endswith("\r")
            assert "50" not in shown


def test_a_short_fit_shows_nothing_even_on_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    RobustPCA(2, algorithm="pca", verbose=True).fit(np.eye(6))
    assert stream.getvalue() == ""


def test_time_that_remains():
    line = Progress(10, io.StringIO()).line(2.5, 30.0)
    assert "pass 3 of at most 10, at most 1 min 30 s left" in line
    assert Progress(None, io.StringIO()).line(2.5, 30.0) == "pass 3, 30 s so far"
    assert Progress(2, io.StringIO()).line(2.5, 30.0) == "pass 3, 30 s so far"
    assert in_time(7500) == "2 h 5 min"
