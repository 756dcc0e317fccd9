"""The harness of `benchmarks/`, with a clock of our own: nothing here depends on real time."""

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from benchmarks import _facts, _load, _measure, _others, _readme, _render
from benchmarks.__main__ import TOPICS, parse, run
from benchmarks._rows import Row, Spread, at_least, at_most


class Clock:
    """Time that passes only when a contestant says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def contestant(self, name: str, *seconds: float):
        durations = iter(seconds)

        def run() -> None:
            self.calls.append(name)
            self.now += next(durations)

        return run


def test_race_forms_ratios_within_a_turn_and_drops_the_warm_up():
    clock = Clock()
    entries = {
        "ours": clock.contestant("ours", 100.0, 1.0, 2.0, 4.0),
        "peer": clock.contestant("peer", 100.0, 3.0, 8.0, 20.0),
    }
    done = _measure.race(entries, turns=3, budget=1e9, timer=clock)
    assert done.times == {"ours": (1.0, 2.0, 4.0), "peer": (3.0, 8.0, 20.0)}
    assert done.speedup("ours", "peer") == Spread(4.0, 3.5, 4.5)
    assert done.cost("ours", "peer").median == pytest.approx(0.25)
    assert done.seconds("peer") == 8.0


def test_race_takes_turns_with_a_rotating_first():
    clock = Clock()
    entries = {name: clock.contestant(name, *[1.0] * 9) for name in "abc"}
    _measure.race(entries, turns=3, warm_up=False, timer=clock)
    assert "".join(clock.calls) == "abcbcacab"


def test_race_stops_after_its_budget_but_has_one_turn():
    clock = Clock()
    entries = {"ours": clock.contestant("ours", *[50.0] * 9)}
    assert len(_measure.race(entries, 5, budget=10.0, timer=clock).times["ours"]) == 1


def test_clock_gives_the_mean_of_number_calls():
    clock = Clock()
    assert _measure.clock(clock.contestant("x", 1.0, 2.0, 6.0), 3, clock) == 3.0


def test_exponent_of_a_power():
    assert _measure.exponent([1, 2, 4, 8], [3, 12, 48, 192]) == 2.0


ROWS = (
    Row("fits", "fit", "numpy 2", "× faster", Spread(31.0, 30.0, 32.0), at_least(30), 0.1, 3.1),
    Row("fits", "fit", "PCA", "× its time", Spread(2.5, 2.0, 3.0), at_most(2), 2.5e-4, 1e-4),
    Row("fits", "a | b", "x", "× faster", None, at_least(1), note="x is not installed"),
    Row("growth", "time", "n^k", "exponent", Spread.exactly(1.01)),
)


def test_verdicts_follow_the_sense_of_the_target():
    assert [row.verdict for row in ROWS] == ["pass", "FAIL", "not run", "–"]
    assert _render.summary(ROWS) == "1 of 3 targets met, 1 not run"


def test_text_has_a_line_a_row_and_one_a_note():
    lines = _render.text(ROWS).splitlines()
    assert len(lines) == 2 + len(ROWS) + 1
    assert lines[2].split()[-1] == "pass"
    assert "≥ 30 × faster" in lines[2]
    assert "30 … 32" in lines[2]
    assert "250 µs" in lines[3]
    assert lines[5] == "    x is not installed"


def test_markdown_has_equal_columns_and_escapes_bars():
    text = _render.markdown(ROWS)
    assert text.count("### ") == 2
    table = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_json_schema(tmp_path: Path):
    path = tmp_path / "out.json"
    _render.write_json(path, _render.document(ROWS, _facts.facts(), quick=True))
    read = json.loads(path.read_text(encoding="utf-8"))
    assert set(read) == {"schema", "quick", "facts", "caution", "rows"}
    assert read["schema"] == 1
    first = read["rows"][0]
    assert first["target"] == {"sense": ">=", "limit": 30}
    assert first["quartiles"] == [30.0, 32.0]
    assert [row["verdict"] for row in read["rows"]] == ["pass", "fail", "not run", None]
    assert all(row.keys() == first.keys() for row in read["rows"])


def test_facts_hold_no_path_and_no_name_of_the_machine():
    import getpass
    import platform

    text = json.dumps(_facts.facts())
    assert "/" not in text
    assert "\\\\" not in text
    assert f'"{platform.node()}"' not in text
    assert f'"{getpass.getuser()}"' not in text


def test_page_states_results_and_facts():
    facts = {**_facts.facts(), "total_seconds": 7}
    page = _readme.page(ROWS, facts)
    assert "1 of 3 targets met" in page
    assert "numpy" in page
    assert "growth.png" in page


def test_rows_from_plain_functions():
    module = ModuleType("benchmarks.fake")
    source = (
        "def slow(quick):\n    return ('dp-sggd loop', 1.0, 40.0, str(quick))\n"
        "def many():\n    return [('REAPER loop', 1.1, 1.0), ('other', 2.0, 6.0)]\n"
        "def _helper(): raise ValueError\n"
        "def helper(x): raise ValueError\n"
    )
    exec(source, module.__dict__)
    rows = list(_others.collect(module, "loops", quick=True))
    assert [(row.what, row.verdict) for row in rows] == [
        ("dp-sggd loop", "pass"),
        ("REAPER loop", "pass"),
        ("other", "–"),
    ]
    assert [row.measured.median for row in rows] == [40.0, 1.1, 3.0]
    assert rows[0].note == "True"


def test_seconds_of_each_turn_give_quartiles():
    row = _others.from_tuple("loops", ("other", (1.0, 2.0, 4.0), (3.0, 8.0, 20.0)))
    assert row.measured == Spread(4.0, 3.5, 4.5)
    assert (row.ours, row.theirs) == (2.0, 8.0)


def test_a_row_taken_on_a_busy_machine_is_not_judged():
    # 10 s on 2 cores: others use 1 s (5 %), then 12 s (60 %); the last row comes at once
    readings = iter([(0.0, 0.0), (10.0, 1.0), (20.0, 13.0), (20.1, 13.0)])
    rows = list(_load.watched([ROWS[0]] * 3, lambda: next(readings), n_cores=2))
    assert [row.others for row in rows] == pytest.approx([0.05, 0.6, 0.6])
    assert [row.verdict for row in rows] == ["pass", "busy", "busy"]
    assert "60%" in _render.caution(rows)
    assert _render.caution(rows[:1]) == ""


def test_an_unknown_load_leaves_the_verdict():
    (row,) = _load.watched([ROWS[0]], lambda: None, n_cores=2)
    assert row.verdict == "pass"


def test_an_absent_module_is_a_row():
    (row,) = run("nothing_here", quick=True, picture=None)
    assert row.verdict == "not run"
    assert "does not exist" in row.note


def test_an_error_is_a_row_after_those_before_it(monkeypatch: pytest.MonkeyPatch):
    def rows(quick: bool):
        yield ROWS[0]
        raise subprocess.CalledProcessError(1, ["x"], stderr="Traceback\nValueError: no\n")

    monkeypatch.setattr("benchmarks.fits.rows", rows)
    first, last = run("fits", quick=True, picture=None)
    assert first.what == ROWS[0].what
    assert last.verdict == "error"
    assert last.note == "a child process failed: ValueError: no"


@pytest.mark.parametrize("arguments", [["--write", "--quick"], ["--write", "fits"], ["speed"]])
def test_refused_options(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(arguments)
    assert "error" in capsys.readouterr().err


def test_every_topic_can_be_named():
    assert tuple(parse(list(TOPICS)).topics) == TOPICS


def test_peers_find_the_subspace():
    from benchmarks import _peers

    from stillspace.datasets import make_haystack
    from stillspace.metrics import subspace_error

    data = make_haystack(400, 8, 2, inlier_ratio=0.6, inlier_noise=0.1, random_state=0)
    assert subspace_error(_peers.numpy_fms(data.X, 2), data.components) < 1e-2
    cost, gradient = _peers.glad(data.X)
    V = _peers.pca_start(data.X, 2)
    step = 1e-6 * gradient(V)
    change = cost(V + step) - cost(V - step)
    assert change == pytest.approx(2 * float((gradient(V) * step).sum()), rel=1e-4)


def test_the_page_on_scale_has_the_tables_of_its_measurements():
    """And the cost model is within a quarter of every measurement that it is checked by."""
    from benchmarks import scale

    found = json.loads((scale.HERE / "scale.json").read_text(encoding="utf-8"))
    text = scale.DOCS.read_text(encoding="utf-8")
    assert scale.with_tables(text, found) == text
    assert len(found["check"]) == len(scale.CHECK_SHAPES) * len(scale.FORMATS)
    for row in found["check"]:
        said = scale.predicted(found["constants"], *row["shape"], row["format"])
        assert said == pytest.approx(row["model"])
        assert abs(said / row["seconds"] - 1.0) <= 0.25
