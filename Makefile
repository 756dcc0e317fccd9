# One virtual environment, made on first use. PYTHON chooses the interpreter it is made with.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-cli
DOCS_STAMP := $(VENV)/.installed-docs

.PHONY: demo browser docs dist test check format evidence bench utility reproduction clean

$(BIN)/python:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test,check]"
	touch $(STAMP)

$(DEMO_STAMP): pyproject.toml | $(BIN)/python  ## the demo needs the command alone: no linters, no peers
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	touch $(DEMO_STAMP)

$(DOCS_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $(DOCS_STAMP)

demo: $(DEMO_STAMP)  ## the main job: a private robust fit, its guarantee and its picture
	$(BIN)/stillspace demo --out demo

test: $(STAMP)  ## all tests; about 6 minutes on 2 cores
	$(BIN)/python -m pytest -n auto --dist worksteal

browser: $(STAMP)  ## Chromium for the tests of the report; without one they are skipped
	command -v chromium || timeout 300 $(BIN)/python -m playwright install --with-deps chromium \
	  || { test "$$(id -u)" = 0 && apt-get update -q \
	       && timeout 300 apt-get install -y --no-install-recommends chromium; } \
	  || echo "There is no Chromium: the tests of the report in a browser are skipped."

docs: $(DOCS_STAMP)  ## the site in build/site, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs build/site

dist:  ## source archive and wheel in dist; needs the package `build`
	$(PYTHON) -m build

check: $(STAMP)  ## linters, formatting, strict types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

evidence: $(STAMP)  ## the longer proofs; writes the tables in evidence/
	$(BIN)/python -m evidence

bench: $(STAMP)  ## speed against peers, about 10 minutes on 2 cores; writes benchmarks/README.md and the tables of docs/scale.md
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks --write
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale --peak --cluster --write

utility: $(STAMP)  ## accuracy against other private PCA, about an hour on 2 cores; writes benchmarks/utility
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks.utility --write
	$(BIN)/python -m benchmarks.utility.real --write

reproduction: $(STAMP)  ## the paper's experiments at their full size, hours; goes on where it was interrupted
	$(BIN)/stillspace reproduce all --size paper --out build/reproduction $(if $(POPRES),--data $(POPRES)) --docs docs

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
