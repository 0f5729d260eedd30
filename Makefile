# make demo       the benchmark on the embedded data, without a model: install, run, show
# make test       install with the real engine, then lint, type-check and test
# make test-full  the same with the long tests
# make demo-llm   the benchmark with a real model on a real engine, on the CPU

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
CACHE ?= .cache
# MovieLens "latest small", for demo-llm: https://grouplens.org/datasets/movielens/
MOVIELENS ?= ../shared/data/ml-latest-small

.PHONY: demo demo-llm test test-full lint bench sync-metrics clean

demo: $(VENV)/.installed
	$(BIN)/gistbench run --output runs/demo --dataset demo \
	  --candidate lexical/hashtag --candidate lexical/tfidf --candidate lexical/phrase

demo-llm: $(VENV)/.engine
	MOVIELENS=$(MOVIELENS) BIN=$(BIN) CACHE=$(CACHE) sh scripts/demo_llm.sh

test: $(VENV)/.engine $(VENV)/.browser lint
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-full: $(VENV)/.engine $(VENV)/.browser lint
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/.tested types/gistbench
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=types $(BIN)/mypy --namespace-packages -p gistbench

# All but the one that needs a work folder of `gistbench qrels`.
bench: $(VENV)/.tested
	for file in $(filter-out benchmarks/qrels_experiments.py,$(wildcard benchmarks/*.py)); do \
	  $(BIN)/python $$file || exit 1; done

# What several metrics need stands once, and is copied: each metric folder is deployed alone.
sync-metrics:
	for copy in metrics/*/common.py; do cp metrics/common.py $$copy; done
	for copy in metrics/*/comparison.py; do cp metrics/comparison.py $$copy; done
	for app in metrics/*/app.py; do cp metrics/page.py $$(dirname $$app); done

clean:
	rm -rf $(VENV) types runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

# The real engine is best effort here: without it its tests skip with one loud line, and fail where CI is set.
$(VENV)/.engine: $(VENV)/.tested scripts/cpu_engine.sh scripts/smollm2.py
	BIN=$(BIN) CACHE=$(CACHE) sh scripts/cpu_engine.sh && touch $@ || test -z "$$CI"

# Best effort: without chromium the browser tests skip, with one line.
$(VENV)/.browser: $(VENV)/.tested scripts/browser.sh
	BIN=$(BIN) sh scripts/browser.sh && touch $@ || true

# An editable install cannot be type-checked; a folder of links can.
types/gistbench:
	mkdir -p $@
	for folder in hf_datasets metrics runners space; do ln -sfn ../../$$folder $@/$$folder; done
