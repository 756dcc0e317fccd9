import pytest
from reproduction.columns import Setting
from reproduction.convergence import Convergence
from reproduction.d_vs_r import DVersusR
from reproduction.eps_vs_delta import EpsilonVersusDelta
from reproduction.europe import MapSize, Popres
from reproduction.inliers_vs_batch import InliersVersusBatch
from reproduction.n_vs_d import RATE_D, NVersusD


@pytest.fixture
def tiny(monkeypatch):
    make_tiny(monkeypatch)


def make_tiny(monkeypatch):
    """Make every experiment at its quick size tiny: a few seconds for all."""
    monkeypatch.setattr(Convergence, "setting", Setting(600, 6, n_iter=40))
    for kind in (Convergence, NVersusD, EpsilonVersusDelta, InliersVersusBatch, DVersusR):
        monkeypatch.setitem(kind.runs, "quick", 2)
    monkeypatch.setitem(Convergence.data_sets, "quick", 1)
    # the dimension of the rates: the same noise need not be calibrated twice
    monkeypatch.setitem(NVersusD.grid, "quick", ((60, 120), (RATE_D,)))
    monkeypatch.setitem(NVersusD.rate_sizes, "quick", (60, 120, 180))
    monkeypatch.setitem(NVersusD.rate_runs, "quick", 2)
    monkeypatch.setattr(NVersusD, "shown", NVersusD.shown[::2])  # one figure of each scale
    monkeypatch.setitem(EpsilonVersusDelta.grid, "quick", ((0.4, 1.6), (1e-2,)))
    monkeypatch.setattr(EpsilonVersusDelta, "n", 200)
    monkeypatch.setattr(EpsilonVersusDelta, "D", 5)
    monkeypatch.setitem(InliersVersusBatch.grid, "quick", ((0.3, 0.8), (1, 8)))
    monkeypatch.setattr(InliersVersusBatch, "n", 200)
    monkeypatch.setattr(InliersVersusBatch, "D", 5)
    monkeypatch.setitem(DVersusR.grid, "quick", ((4, 6), (1, 4)))
    monkeypatch.setattr(DVersusR, "n", 200)
    monkeypatch.setitem(Popres.sizes, "quick", MapSize(60, 40, 20, 50, 2))
