# What there is to do with fastcell. Every target first sets up what it needs, and nothing twice.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# No bytecode at install time: it takes longer than all the rest, and Python writes it when needed.
PIP_INSTALL := $(BIN)/pip --disable-pip-version-check install --quiet --no-compile

# One worker a core; each computes with one thread, so that they don't fight for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto
# Not ops.def: clang-format takes its products for pointers.
CPP := csrc/*.cpp csrc/*.h
SANITIZED := build/sanitized
SANITIZED_TESTS := $(foreach name,space features canonical vector_math tile_machine tile_machine_use scan packed streaming,tests/test_$(name).py)

.PHONY: help setup demo test bench bench-gpu lint format sanitize clean
.DELETE_ON_ERROR:

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/make \1\t\2/p' Makefile | expand -t 16

setup: $(VENV)/.fastcell  ## .venv with the pinned requirements and fastcell, its extension built

$(VENV)/.requirements: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fastcell needs Python 3.11 or newer: make PYTHON=... ($$($(PYTHON) -V) found)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --requirement requirements.txt
	@touch $@

$(VENV)/.fastcell: $(VENV)/.requirements setup.py pyproject.toml $(wildcard csrc/*)
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## the search: a million cells, a few of them trained on the Adding task, the table
	$(BIN)/fastcell search --candidates 1000000 --train 6 --epochs 45 --jobs $$(nproc) --out runs/demo

test: setup  ## the tests, all but the slow ones and those for a GPU
	$(PYTEST)

bench: setup  ## the benchmarks, rivals included; numbers and a table go to bench/results
	@mkdir -p bench/results
	$(BIN)/pytest bench/bench_space.py --benchmark-json bench/results/space.json
	$(BIN)/pytest bench/bench_scan.py --benchmark-json bench/results/scan.json
	$(BIN)/python bench/table.py bench/results/scan.json | tee bench/results/scan.md

bench-gpu: setup  ## tests and benchmarks that need a GPU, numbers go to bench/results
	@mkdir -p bench/results
	$(BIN)/pytest -m gpu tests
	$(BIN)/pytest -m gpu bench/bench_gpu.py --benchmark-json bench/results/gpu.json

lint: setup  ## ruff, mypy, import layers, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(CPP)

format: setup  ## rewrites Python and C++ to the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

# Python itself is not instrumented, so the sanitizer's library has to be there before it, and with
# it libstdc++, whose exceptions it watches. Tests of speed are left out.
sanitize: setup  ## the tests of the C++ code, under AddressSanitizer and UBSan
	FASTCELL_SANITIZE=address,undefined $(BIN)/python setup.py -q build --build-lib $(SANITIZED)
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED) $(PYTEST) -k "not quick" $(SANITIZED_TESTS)

clean:  ## removes everything that the other targets made, runs/ apart
	rm -rf $(VENV) build *.egg-info fastcell/*.so .*_cache .hypothesis
