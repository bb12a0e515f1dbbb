# `make demo` and `make test` are the two commands to begin with. Each target makes the
# virtual environment .venv when it is missing or when pyproject.toml has changed. The
# demo needs the package alone. All other targets also install what tests, PyTorch,
# sampling and style checks need.
PYTHON ?= python3
BIN := .venv/bin
# Python compiles what it imports: not all of it is needed.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The release that the tests run with. Newer ones should work as well.
TORCH ?= torch==2.13.0
STUDIES := delay_gradient fit_quality mid_cycle interval_coverage experiments process_noise noise_models \
	distributed_delays paper_claims paper_page conformance

.PHONY: demo docs test test-slow test-float32 lint bench studies clean

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/complete: .venv/installed
	$(INSTALL) --editable ".[test,lint,docs,torch,sample]" $(TORCH)
	touch $@

.venv/documentation: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable ".[docs]" $(TORCH)
	touch .venv/installed $@

demo: .venv/installed
	$(BIN)/python -m ddefind demo

# The pages, tutorials and gallery as a site: open out/site/index.html in a browser.
docs: .venv/documentation
	$(BIN)/python -m website

test: .venv/complete
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: .venv/complete
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# Also part of `make test`; here alone, for JAX_ENABLE_X64=0.
test-float32: .venv/complete
	$(BIN)/python -m pytest tests/test_float32.py

lint: .venv/complete
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: .venv/complete
	$(BIN)/python -m benchmarks

# Measure the tables of docs/ again: more than an hour. See studies/README.md.
studies: .venv/complete
	set -e; for study in $(STUDIES); do $(BIN)/python -m studies.$$study; done

clean:
	rm -rf .venv out .jax_cache
