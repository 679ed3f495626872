# Every target sets up what it needs: .venv with pinned packages, and Debian's programs for the tests.
BIN := .venv/bin

.PHONY: demo test check bench torture-kills generate golden lock clean setup

demo: setup  ## run the exporter on the built-in simulator
	@$(BIN)/azure-scheduled-events-exporter demo $(DEMO)

test: setup  ## everything that CI runs; PYTEST='-k name' runs a part
	@scripts/test $(PYTEST)

check: setup  ## the static part of test: ruff and mypy
	@scripts/check

bench: setup  ## figures: journal, change to metrics, time to a page, rules of a large fleet; half an hour on a quiet machine
	@$(BIN)/python benchmarks/journal.py
	@$(BIN)/python benchmarks/change_latency.py
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.paging
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.rules

torture-kills: setup  ## 200 SIGKILLs in mid event; KILLS=n SEED=n
	@scripts/torture-kills

generate: setup  ## write dashboards, alert rules and Alertmanager's configuration anew
	@$(BIN)/python -m alerts
	@$(BIN)/python -m dashboards

golden: setup  ## write the golden files anew; look at the difference before committing it
	@$(BIN)/pytest -q tests/unit/test_metrics.py --update-golden

lock: setup  ## pin requirements anew from the ranges in pyproject.toml; UPGRADE=1 takes newer versions
	@scripts/lock

setup:
	@scripts/setup

clean:
	rm -rf .venv .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
