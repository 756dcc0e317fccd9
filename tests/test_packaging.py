"""What is packaged: the archive, the recipe, the workflows and the Makefile agree."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import stillspace

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_recipe_needs_what_the_package_needs():
    text = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    extra = PROJECT["project"]["optional-dependencies"]["cli"]
    for line in [*PROJECT["project"]["dependencies"], *extra]:
        name, bounds = re.fullmatch(r"([a-z-]+)(.*)", line).groups()
        name = {"matplotlib": "matplotlib-base"}.get(name, name)
        assert f"- {name} {bounds}\n" in text, name
    assert f'{{% set version = "{stillspace.__version__}" %}}' in text


def test_the_source_archive_holds_what_tests_read():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    missing = [name for name in included if not (ROOT / name).exists()]
    assert missing == []
    for name in ("SECURITY.md", "CONTRIBUTING.md", "Makefile", "README.md", "docs", "recipe"):
        assert name in included


def test_pythons_of_the_workflow_are_those_of_the_classifiers():
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("a source archive has no workflows")
    line = re.search(r"python: \[(.*)\]", workflow.read_text(encoding="utf-8")).group(1)
    classified = [
        name.rpartition(" ")[2]
        for name in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", name)
    ]
    assert re.findall(r"3\.\d+", line) == classified


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_demo_installs_the_command_alone(tmp_path):
    done = subprocess.run(
        ["make", "--dry-run", "demo", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall(r'--editable "(.*)"', done.stdout) == [".[cli]"]
