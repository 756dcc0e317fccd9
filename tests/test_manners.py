"""How the command behaves in a shell: help, JSON, exit codes, Ctrl-C, pipes, locales, widths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from stillspace import Budget, PrivatePCA
from stillspace.cli.app import app
from stillspace.models import save_model

COMMANDS = [
    ["demo"], ["fit"], ["plan"], ["check"], ["show"], ["transform"], ["audit"], ["report"],
    ["key"], ["convert"], ["reproduce"], ["budget", "create"], ["budget", "show"],
    ["budget", "verify"], ["budget", "export"],
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("manners") / "model.npz"
    save_model(PrivatePCA(1).fit(np.random.default_rng(0).standard_normal((80, 3))), path)
    return path


def run(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_every_command_is_listed_here():
    group = typer.main.get_command(app)
    assert set(group.commands) == {words[0] for words in COMMANDS}
    assert set(group.commands["budget"].commands) == {w[1] for w in COMMANDS if len(w) == 2}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("width", ["40", "100"])
def test_every_command_has_examples(words, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    example = f"stillspace {' '.join(words)}"
    assert example in result.stdout


def test_the_root_says_exit_codes_and_how_to_complete():
    said = run("--help").stdout
    assert "Exit codes: 0 done" in said
    assert "--install-completion" in said
    assert "stillspace report model.npz" in said


def test_json_is_json_and_nothing_else(model, tmp_path):
    budget = Budget(tmp_path / "ledger.db", epsilon=1, delta=1e-5)
    table = tmp_path / "t.csv"
    rows = np.random.default_rng(0).standard_normal((50, 3))
    np.savetxt(table, rows, delimiter=",")
    fit = ["fit", table, "-r", 1, "--epsilon", 1, "--center", 0, "--scale", 1]
    calls = {
        "show": ["show", model, "--json"],
        "plan": ["plan", "-n", 500, "-d", 5, "-r", 1, "--epsilon", 1, "--json"],
        "budget": ["budget", "show", budget.path, "--json"],
        "check": ["check", table, "--json"],
        "fit": [*fit, "-o", tmp_path / "m.npz", "--json"],
    }
    found = {}
    for name, words in calls.items():
        result = run(*words)
        assert result.exit_code == 0, result.output
        found[name] = json.loads(result.stdout)
    assert found["show"]["privacy"]["private"] is True
    assert found["show"]["file"]["signature"] == ""
    assert np.shape(found["show"]["components"]) == (1, 3)
    assert found["budget"]["entries"] == []
    assert found["plan"]["error"] > 0
    assert found["fit"]["privacy"]["epsilon"] <= 1.0
    assert found["fit"]["columns"] is None


def test_keys_sign_and_check(model, tmp_path):
    assert run("key", tmp_path / "key").exit_code == 0
    assert "never replaced" in run("key", tmp_path / "key").stderr
    result = run("show", model, "--key", tmp_path / "key")
    assert result.exit_code == 1
    assert "is not signed" in result.stderr
    assert "checksum" in run("show", model).stdout


def test_an_audit_of_a_model_takes_no_claim(model):
    result = run("audit", model, "--epsilon", 1)
    assert result.exit_code == 2
    assert "brings its own plan and claim" in result.stderr


def start(*words: object, **options: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "stillspace", *map(str, words)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


def test_the_plainest_terminal_will_do(model):
    """The C locale, no colours, forty columns: every character can be printed."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "NO_COLOR": "1"}
    environment = {**os.environ, **plain, "COLUMNS": "40", "TERM": "xterm"}
    environment.pop("FORCE_COLOR", None)
    process = start("show", model, stdout=subprocess.PIPE, env=environment)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0
    assert error == b""
    assert b"\x1b" not in out
    assert b"Guarantee:" in out
    out.decode("ascii")


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_reader_who_leaves_is_no_error(model):
    reading, writing = os.pipe()
    os.close(reading)
    process = start("show", model, stdout=writing)
    os.close(writing)
    _, error = process.communicate(timeout=120)
    assert b"Traceback" not in error
    assert b"Exception ignored" not in error


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_leaves_no_trace():
    # A shell that runs the tests in the background has its children ignore SIGINT.
    heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = start("audit", "dp-ggd", "--runs", 10_000_000, stdout=subprocess.DEVNULL, **heeding)
    try:
        assert b"Running" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"Traceback" not in error
