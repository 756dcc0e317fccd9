"""Every block of code in the README and in docs/ runs, literally, in a fresh folder.

Blocks of one page share their names, in the order of the page. Lines of `sh` blocks are commands of
`stillspace`, run in this process; `make` and `pip` are what continuous integration itself runs.
"""

import re
import runpy
import shlex
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

from stillspace.cli import main
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#|<)([^)#\s]+)")
TESTED_BY_ITSELF = ROOT / "docs" / "extending.md"  # tests/test_extending.py runs its blocks
ELSEWHERE = ("make ", "pip ", "python -m ")
mpl.use("Agg")


def blocks(page):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(kind, text) for kind, text in found if kind in {"python", "sh"}]


def run_commands(text, monkeypatch):
    for line in text.replace("\\\n", " ").splitlines():
        command = line.partition("  #")[0].strip()
        if not command or command.startswith(ELSEWHERE):
            continue
        assert command.startswith("stillspace "), command
        monkeypatch.setattr("sys.argv", shlex.split(command))
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code in (0, None), command


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if blocks(p) and p != TESTED_BY_ITSELF],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.filterwarnings("ignore", module="distributed")
        for kind, text in blocks(page):
            if kind == "sh":
                run_commands(text, monkeypatch)
            else:
                exec(compile(text, str(page), "exec"), names)
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_every_page_is_in_the_table_of_contents():
    """A page that no other page lists cannot be found."""
    docs = ROOT / "docs"
    listed = set()
    for page in docs.rglob("*.md"):
        for body in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            lines = [line for line in body.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]  # title <page>
            listed |= {(page.parent / name).relative_to(docs).as_posix() for name in names}
    pages = {p.relative_to(docs).with_suffix("").as_posix() for p in docs.rglob("*.md")}
    pages = {p for p in pages if not p.startswith(("gallery/", "generated/"))}
    assert pages - listed == {"index"}
    assert listed - pages == {"api", "gallery/index"}


def test_every_constant_stands_in_the_documentation():
    """All fields of all rules, with their values and reasons, on the page of each rule."""
    names = runpy.run_path(str(ROOT / "docs" / "constants.py"))
    for rule, name in names["RULES"].items():
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert names["written"](page, rule) == page, f"{rule.__name__}: run docs/constants.py"
    known = {rule.__name__ for rule in names["RULES"]}
    for path in (ROOT / "src" / "stillspace" / "methods").rglob("*.py"):
        rules = re.findall(r"^class (\w+Rule)\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(rules) <= known, path
