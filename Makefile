# What a person does here, one word each; `make` alone lists them.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHON

.DEFAULT_GOAL := help
# The system's packages come first: one of them brings Python's venv module.
.NOTPARALLEL:
.PHONY: help setup servers venv demo test lint format chaos build clean

help: ## list what can be done
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: servers venv ## prepare everything: system packages, .venv, pinned libraries

servers: ## install RabbitMQ and Redis from the system's packages where they are missing
	@scripts/system-packages.sh rabbitmq-server redis-server python3-venv

venv: $(READY) ## prepare only .venv with the pinned libraries

# The build tools are installed beforehand because pip would fetch others than the pinned ones.
$(READY): pyproject.toml constraints.txt
	@scripts/system-packages.sh python3-venv
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt hatchling editables
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: setup ## crawl a sample site politely and prove it (the main job)
	$(BIN)/throttlectl demo $(ARGS)

# Tests that measure a rate to the percent have the machine to themselves.
test: setup ## run every test, with real servers (ARGS: a part of them, as pytest takes it)
ifeq ($(ARGS),)
	$(BIN)/pytest --quiet -m "not alone" --numprocesses 2 --dist load
	$(BIN)/pytest --quiet -m alone
else
	$(BIN)/pytest $(ARGS)
endif

lint: setup ## check style, types and the rules of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --quiet tests/unit/test_house.py

format: setup ## rewrite the code in the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

chaos: setup ## run only the tests that kill and pause processes
	$(BIN)/pytest tests/chaos $(ARGS)

build: setup ## build the wheel into dist/
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove what was built, .venv too
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
