# Each target first makes the virtual environment that it needs. `make help` lists the targets.
# macOS has GNU make 3.81 and bash 3.2, and other versions of sed, tar and find than Linux.

VENV ?= .venv
PYTHON ?= python3

SHELL := /bin/bash

# The commands of the pipeline say plain `python`: it must be the one of the environment.
export PATH := $(abspath $(VENV))/bin:$(PATH)
export DVC_NO_ANALYTICS := 1

STAMP := $(VENV)/.installed

.PHONY: help setup repro figures site lint unit unit-all nbval smoke test test-all certify \
  prove prove-all lab bench notebooks clean

help:  ## list the targets
	@awk -F ':.*  ## ' '/^[a-z-]*:.*  ## / { printf "%-12s%s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## make the virtual environment VENV (.venv) with PYTHON (python3)

# Without .git, as in an archive, DVC must be told so.
$(STAMP): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) else \
	  "PYTHON=$(PYTHON) is Python %d.%d: expected 3.11, 3.12 or 3.13" % sys.version_info[:2])'
	@echo "installing the packages of requirements.txt into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@[[ -e .git ]] || dvc config --local core.no_scm true
	@[[ ! -e .git ]] || $(call set_filter)
	@touch $@

# What git keeps of a saved notebook (.gitattributes); all of it while there is no environment.
define set_filter
git config filter.carry.clean \
  '[ -x $(VENV)/bin/python ] || exec cat; exec $(VENV)/bin/python -m carry.config.notebooks'
endef

repro: setup  ## run the pipeline: what params.yaml trains, all figures, the claims and the site
	dvc repro
	@carry compare || true

figures: setup  ## draw all figures from the results in git, without training
	carry figures

site: figures  ## draw all figures, and build the site in reports/site
	carry site

smoke: setup  ## run the pipeline at the scale `smoke` in a copy, twice; the second run does nothing
	tests/smoke.sh

lint: setup  ## check the style of the code
	ruff check .
	ruff format --check .

unit: setup  ## unit tests and doctests; then the contract tests, with shapes and types checked
	python -m pytest -n 2 -m 'not contract and not slow'
	CARRY_CHECK_SHAPES=1 python -m pytest -n 2 -m contract $$(grep -l mark.contract tests/test_*.py)

nbval: setup  ## run every notebook with its defaults and compare its outputs
	python tests/compare_notebooks.py

test: setup  ## lint, unit, nbval and smoke, and how long each took
	@$(call time_parts,lint unit nbval+smoke)

test-all: setup  ## the same with slow tests, and more kills
	@$(call time_parts,lint unit-all nbval+smoke)

unit-all: setup
	CARRY_TEST_ALL=1 python -m pytest -n 2 -m 'not contract'
	CARRY_CHECK_SHAPES=1 python -m pytest -n 2 -m contract $$(grep -l mark.contract tests/test_*.py)

# Make each target, stop at the first that fails, and print a line for each. Those joined by + run
# side by side: smoke uses one core most of the time.
define time_parts
times=; \
for part in $(1); do \
  SECONDS=0; $(MAKE) --no-print-directory -j 2 $${part//+/ } || exit; \
  times+="$$part: $$SECONDS s; "; \
done; \
echo "$@: $$times"
endef

certify: setup  ## verify reports/certificates again from the committed weights, by two programs
	carry certify
	python -m certificates.independent

# Without Coq these print a line, and need no environment.
prove: $(if $(shell command -v coqc 2> /dev/null),setup)  ## check the proofs in Coq, if it is installed
	@$(PYTHON) proofs/prove.py

prove-all: $(if $(shell command -v coqc 2> /dev/null),setup)  ## the same with those that take long
	@$(PYTHON) proofs/prove.py --all

notebooks: setup  ## run every notebook with its defaults and keep the outputs that `test` compares
	python -m carry refresh

# Not the kernels of other Jupyters (JUPYTER_PATH): `python3` is the environment's. In containers the
# user is root, whom jupyter otherwise refuses.
lab: setup  ## open JupyterLab on the notebooks; ARGS="--port 9999 --no-browser"
	JUPYTER_PATH= jupyter lab --notebook-dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

bench: setup  ## measure speed
	python benchmarks/run.py

# The pipeline can make everything in data/ again, most of it from DVC's cache.
clean:  ## remove the environment, scratch files, compiled proofs and what is in data/; not DVC's cache
	rm -rf $(VENV) build lib/*.egg-info .pytest_cache .ruff_cache .hypothesis
	[[ ! -d data ]] || find data/ -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +
	find lib tests notebooks benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	find proofs \( -name '*.vo*' -o -name '*.glob' -o -name '*.out' -o -name '.*.aux' -o -name '.coq' \
	  -o -name '.*.cache' \) -exec rm -f {} +
	find notebooks -name .ipynb_checkpoints -prune -exec rm -rf {} + 2>/dev/null || true
