# Each target does everything it needs from a fresh clone, and is quick the second time.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := sim policies deploy hardware calibration tests

.DEFAULT_GOAL := help
.PHONY: help install genesis demo test gpu-check bench check format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv and install isthmus there with the tested versions

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"isthmus needs Python 3.11 or newer, $(PYTHON) is {sys.version.split()[0]}; say: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo 'installing into $(VENV), this takes a few minutes the first time'
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[operators]' 2>/dev/null || echo "going on without gamepads and pedals: evdev needs a C compiler and the kernel's headers" >&2
	@touch $@

genesis: $(INSTALLED) ## Add Genesis, the engine for GPUs: 2.7 GB
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev,genesis]'

demo: $(INSTALLED) ## The whole loop on the virtual arm; ends with a report to open in a browser
	@.ci/system-packages || echo "going on without pictures of the arm" >&2
	$(BIN)/isthmus demo

test: $(INSTALLED) ## Run all tests
	@.ci/system-packages || echo "going on: tests of rendering will fail" >&2
	$(BIN)/python -m pytest -n 2

gpu-check: genesis ## On a machine with a GPU, in five minutes: speed, training, agreement with the CPU
	$(BIN)/python tests/gpu_check.py

bench: $(INSTALLED) ## Measure the figures of the README: three seeds, every shipped parameter file
	$(BIN)/isthmus bench gap

check: $(INSTALLED) ## Format, lint, types, layers: what must be clean before a commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo --no-cache

format: $(INSTALLED) ## Format the code and repair what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove .venv and everything built (runs/ stays)
	rm -rf $(VENV) build dist .coverage .hypothesis .pytest_cache .ruff_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
