# The two commands: `make demo` and `make test`. Both set up everything they need in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PAIR ?= qwen-coder
# Batched products are about twice as fast with llamafile's kernels.
export CMAKE_ARGS ?= -DGGML_LLAMAFILE=ON -DGGML_NATIVE=ON
# gcc 12 drops the stores of ggml's AMX tile configuration, and its tiles then end the process.
export CXXFLAGS ?= -fno-tree-dse -fno-dse
export RAY_USAGE_STATS_ENABLED := 0
export MLFLOW_DISABLE_TELEMETRY := true
# A checkout keeps its state inside itself; an installed lever uses the user's data folder.
export LEVER_HOME ?= $(CURDIR)/.lever

.PHONY: demo test test-slow check bench bench-farm bench-transfer soak lock clean compose-env chaos
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
	$(BIN)/python -m pytest -n 2 --dist loadfile  # most of them wait

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow --timeout 1200  # the first test of a pair fetches it

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

bench-farm: $(READY) ## PARTS="growing share": only these anew
	$(BIN)/python -m benchmarks.farm $(PARTS)

bench-transfer: $(READY)
	$(BIN)/python -m benchmarks.transfer

soak: $(READY)
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),7200) --seed $(or $(SEED),0)

lock: ## renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet -o requirements.lock pyproject.toml

chaos: $(READY) ## kill every part of a farm, again and again; takes half an hour
	$(BIN)/python -m tests.chaos.run --seed $(or $(SEED),1) --kills $(or $(KILLS),200) --trials $(or $(TRIALS),304)

compose-env: ## passwords for docker-compose.yml
	$(PYTHON) deploy/make_env.py .env

clean:
	rm -rf $(VENV) .lever build *.egg-info
