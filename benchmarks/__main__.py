"""`python -m benchmarks [TOPIC ...]`: speed against peers, as ratios taken in one run."""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from subprocess import CalledProcessError
from time import perf_counter

from benchmarks import _others, _readme, _render
from benchmarks._facts import facts
from benchmarks._load import watched
from benchmarks._rows import Row

HERE = Path(__file__).parent
TOPICS = ("loops", "passes", "fits", "defaults", "calibration", "noise", "startup", "growth")
PLAIN = ("loops", "passes")
"""Modules of plain functions; see `_others`."""


def main(arguments: list[str]) -> None:
    options = parse(arguments)
    known = facts()
    print(_render.facts_line(known), flush=True)
    rows: list[Row] = []
    begin = perf_counter()
    for topic in options.topics or TOPICS:
        for row in run(topic, options.quick, HERE / "growth.png" if options.write else None):
            print(_render.progress(row), file=sys.stderr, flush=True)
            rows.append(row)
    known["total_seconds"] = round(perf_counter() - begin)
    print(_render.text(rows))
    print(f"{_render.summary(rows)}, {known['total_seconds']} s in all.")
    if _render.caution(rows):
        print(_render.caution(rows))
    document = _render.document(rows, known, quick=options.quick)
    for path in options.json:
        _render.write_json(path, document)
    if any(row.error for row in rows):
        sys.exit("A topic broke off: see its note." + " Nothing was written." * options.write)
    if options.write:
        _render.write_json(HERE / "results.json", document)
        (HERE / "README.md").write_text(_readme.page(rows, known), encoding="utf-8")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=f"of {', '.join(TOPICS)}")
    parser.add_argument("--quick", action="store_true", help="smaller data, about 2 minutes")
    parser.add_argument("--json", type=Path, action="append", default=[], metavar="PATH")
    parser.add_argument(
        "--write", action="store_true", help="write README.md, results.json and growth.png here"
    )
    options = parser.parse_args(arguments)
    for topic in options.topics:
        if topic not in TOPICS:
            parser.error(f"unknown topic {topic!r}; known: {', '.join(TOPICS)}.")
    if options.write and (options.topics or options.quick):
        # The page says that its figures come from one run.
        parser.error("--write needs the whole run: leave out --quick and the topics.")
    return options


def run(topic: str, quick: bool, picture: Path | None) -> Iterator[Row]:
    """Yield a topic's rows; what goes wrong in it is a row too, and the other topics still run."""
    try:
        yield from watched(measure(topic, quick, picture))
    except Exception as error:  # whatever it is, minutes of other results are kept
        yield Row(topic, topic, "", "× faster", None, note=reason(error), error=True)


def measure(topic: str, quick: bool, picture: Path | None) -> Iterator[Row]:
    if util.find_spec(f"benchmarks.{topic}") is None:
        note = f"benchmarks/{topic}.py does not exist"
        yield Row(topic, topic, "", "× faster", None, note=note)
        return
    module = import_module(f"benchmarks.{topic}")
    if topic in PLAIN:
        yield from _others.collect(module, topic, quick)
    elif topic == "growth":
        yield from module.rows(quick, picture)
    else:
        yield from module.rows(quick)


def reason(error: Exception) -> str:
    """Return the error in one line; of a child process, the last line that it wrote."""
    if isinstance(error, CalledProcessError):
        text = f"a child process failed: {(error.stderr or '?').strip().splitlines()[-1]}"
    else:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
    return text.replace(str(HERE.parent), "…").replace(str(Path.home()), "~")


if __name__ == "__main__":
    main(sys.argv[1:])
