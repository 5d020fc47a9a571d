# make grade   set up, build, make a sample class if nobody has handed in, grade
# make test    everything that must hold before a change lands
# make site    the course as pages to read, in the folder site
# make lab     JupyterLab in this folder, with nbgrader's formgrader
# make versions   units 00 and 02 in fresh environments: oldest and newest supported versions, and Colab's; ARGS="oldest --units 02"
# make bench-flash, bench-grade, bench-import   what tiling gains, how much sooner a class is graded than by nbgrader alone, how quickly the course imports; ARGS="…" tells them more

SHELL  := /bin/bash
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
LOG    := .venv/setup.log

export OMP_NUM_THREADS ?= 1

.PHONY: bench-flash bench-grade bench-import build grade lab lint setup site test versions
.DEFAULT_GOAL := setup

setup: $(READY)

# torch first and alone, so that the file that pip finds for it decides; everything else then takes it as it is.
$(READY): pyproject.toml autograder/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "setup: $(PYTHON) is older than 3.11; name a newer one: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "setup: making .venv"; $(PYTHON) -m venv .venv; } \
	  || { echo "setup: $(PYTHON) can't make a virtual environment (on Debian: apt install python3-venv)"; exit 1; }
	@echo "setup: installing (a few minutes at the first time; what pip says goes to $(LOG))"
	@{ $(BIN)/python -m pip install "$$(grep '^torch==' constraints.txt)" \
	   && $(BIN)/python -m pip install -c constraints.txt -e . -e './autograder[dev]'; } > $(LOG) 2>&1 \
	  || { echo "setup: failed: $$(grep -m 1 '^ *ERROR' $(LOG) || tail -n 1 $(LOG)) (all of it: $(LOG))"; exit 1; }
	@touch $@
	@echo "setup: ready"

build: setup
	@$(BIN)/attn build

# Status 3 says that some submissions were rejected; they are in the table, and the rest is graded.
grade: setup
	@$(BIN)/attn build
	@$(BIN)/attn sample-class --if-empty
	@$(BIN)/attn grade || [ $$? -eq 3 ]

lint: setup
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/lint-imports --no-logo > .venv/imports.log || { cat .venv/imports.log; exit 1; }
	@$(BIN)/mypy --cache-dir .venv/mypy > .venv/mypy.log || { cat .venv/mypy.log; exit 1; }
	@$(BIN)/attn lint

test: lint
	@$(BIN)/attn build --check
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=20

site: setup
	@$(BIN)/attn site

lab: setup
	@$(BIN)/jupyter lab

# For instance ARGS="--lengths 1024 2048 --json found.json"; --help tells the rest.
bench-flash: setup
	@$(BIN)/python -m autograder.bench.flash $(ARGS)

# For instance ARGS="02 05 --students 30 --times 5"; --help tells the rest.
bench-grade: setup
	@$(BIN)/python -m autograder.bench.grade $(ARGS)

# ARGS="TIMES"
bench-import: setup
	@$(BIN)/python -m autograder.bench.import_time $(ARGS)

# ARGS="oldest newest colab --units 00 02"
versions: setup
	@$(BIN)/python -m autograder.bench.supported_versions $(ARGS)
