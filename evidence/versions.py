"""The whole test suite on other versions: the lowest declared ones, and newer Pythons.

`python -m evidence.versions` makes one virtual environment per case, runs the suite in it and
writes `tables/versions.md`. A case is a command that starts an interpreter, such as `python3.12`.
A command may have a prefix, such as `chroot FOLDER python3.13`, if the interpreter belongs to
another system whose /tmp is this one's. Results are kept in a folder, one file per case, and a case
that has a result is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from evidence._table import markdown

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).parent / "tables" / "versions.md"
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "randomgen", "matplotlib", "typer", "pandas")
EXTRAS = ("plots", "cli", "accounting", "files", "dask", "test")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
NOTE = (
    "`python -m evidence.versions` makes a fresh virtual environment per line and runs the whole "
    "suite in it, in one process with one thread. “Lowest” installs exactly the lower bounds that "
    "pyproject.toml declares; packages that these need get their newest versions. "
    "“Newest” is what pip chooses."
)


def floors() -> list[str]:
    """Return every declared lower bound as an exact version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    exact = (line.replace(">=", "==") for line in declared if ">=" in line)
    return sorted({re.sub(r"\[.*?\]", "", line) for line in exact})  # constraints have no extras


def run(command: Sequence[str], lowest: bool, folder: Path) -> dict[str, object]:
    """Make an environment, run the suite in it and return versions and counts."""
    *prefix, python = command
    home = folder / "venv"
    subprocess.run([*prefix, python, "-m", "venv", "--clear", str(home)], check=True)
    inside = [*prefix, str(home / "bin" / "python"), "-m"]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(floors() if lowest else []) + "\n", encoding="utf-8")
    pip = [*inside, "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "install", "--quiet", "--constraint", str(constraints), f"{ROOT}[test]"], check=True
    )
    listed = subprocess.run(
        [*pip, "list", "--format", "json"], check=True, capture_output=True, text=True
    )
    versions = {entry["name"].lower(): entry["version"] for entry in json.loads(listed.stdout)}
    spoken = subprocess.run(
        [*prefix, python, "--version"], check=True, capture_output=True, text=True
    )
    report = folder / "report.xml"
    env = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(ROOT / "src")}
    env["NUMBA_CACHE_DIR"] = str(folder / "cache")
    tests = ["pytest", "-q", "-p", "no:cacheprovider", "-n", "1", f"--junitxml={report}"]
    done = subprocess.run([*inside, *tests, str(ROOT)], check=False, env=env, cwd=ROOT)
    found = {"python": spoken.stdout.split()[1], "versions": versions, "exit": done.returncode}
    return found | counted(report)


def counted(report: Path) -> dict[str, object]:
    """Return the counts of a JUnit report and the names of the tests that did not pass."""
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    wrong = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    return {"passed": total - skipped - len(wrong), "skipped": skipped, "wrong": wrong}


def table(results: Sequence[dict]) -> str:
    """Return the table of all cases, and a list of what did not pass."""
    header = ["case", "Python", *SHOWN, "passed", "skipped", "failed"]
    rows = [
        [
            found["case"],
            found["python"],
            *(found["versions"].get(name, "–") for name in SHOWN),
            found["passed"],
            found["skipped"],
            len(found["wrong"]),
        ]
        for found in results
    ]
    text = markdown("Versions", NOTE, header, rows)
    failures = [f"- {found['case']}: `{name}`" for found in results for name in found["wrong"]]
    return "\n".join([text, *(["", "Failed:", "", *failures] if failures else [])])


def cases(commands: Sequence[str]) -> dict[str, tuple[list[str], bool]]:
    """Return the cases by name: the lowest versions on the first interpreter, then the newest."""
    wanted = commands or [
        name for name in ("python3.11", "python3.12", "python3.13") if shutil.which(name)
    ]
    first, *others = [shlex.split(command) for command in wanted]
    found = {"lowest": (first, True)}
    for command in others:
        found[f"newest, {Path(command[-1]).name}"] = (command, False)
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", help="Commands that start an interpreter.")
    parser.add_argument("--results", type=Path, required=True, help="Folder for the results.")
    options = parser.parse_args(arguments)
    results = []
    for name, (command, lowest) in cases(options.commands).items():
        folder = options.results.resolve() / re.sub(r"\W+", "-", name)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "result.json"
        if not kept.exists():
            found = {"case": name, **run(command, lowest, folder)}
            kept.write_text(json.dumps(found, indent=1), encoding="utf-8")
        results.append(json.loads(kept.read_text(encoding="utf-8")))
        TABLE.write_text(table(results) + "\n", encoding="utf-8")
    print(TABLE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(sys.argv[1:])
