# Two commands for a newcomer: `make demo` and `make test`. Each makes .venv when it
# is missing or pyproject.toml has changed, and reuses it otherwise. The demo needs the
# package alone; the rest also what tests, torch, sampling and style need.
PYTHON ?= python3
BIN := .venv/bin
# The release that the tests run with; any from there on should do.
TORCH ?= torch==2.13.0

.PHONY: demo test test-slow lint bench clean

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/complete: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--editable ".[test,lint,torch,sample]" $(TORCH)
	touch $@

demo: .venv/installed
	$(BIN)/python -m ddefind demo

test: .venv/complete
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/complete
	$(BIN)/python -m pytest -n 2 -m slow

lint: .venv/complete
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: .venv/complete
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv out
