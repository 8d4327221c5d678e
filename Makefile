# The two commands: `make demo` and `make test`. Both set up everything they need in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PAIR ?= qwen-coder
# Batched products are about twice as fast with llamafile's kernels.
export CMAKE_ARGS ?= -DGGML_LLAMAFILE=ON -DGGML_NATIVE=ON
export RAY_USAGE_STATS_ENABLED := 0
export MLFLOW_DISABLE_TELEMETRY := true
# A checkout keeps its state inside itself; an installed lever uses the user's data folder.
export LEVER_HOME ?= $(CURDIR)/.lever

.PHONY: demo test test-slow check bench lock clean
.DELETE_ON_ERROR:

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	@echo "Installing pinned dependencies; ggml is built from source, this takes a few minutes the first time."
	$(BIN)/pip install --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY)
	$(BIN)/python -m orchestrator demo --pair $(PAIR)

test: $(READY)
	$(BIN)/python -m pytest

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow --timeout 1200  # the first test of a pair fetches it

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

lock: ## renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .lever build *.egg-info
