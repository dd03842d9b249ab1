# make example   install into .venv, trace an example, show what was found
# make test      install into .venv, run the tests
# make check     format, lint, types, fast tests: what a commit needs, in under a minute
# make bench     compare with other tracers; writes benchmarks/results/ and the README's tables
# make build     compile the core into the source tree, for the interpreter in PYTHON
PYTHON ?= python3
VENV ?= .venv
TAG := $(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')
SOURCES := $(shell find core src -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.pyi') CMakeLists.txt pyproject.toml

# The newest sources are installed whenever one of them changed.
INSTALLED := $(VENV)/.installed
CHECKING := $(VENV)/.checking
BENCHMARKING := $(VENV)/.benchmarking

example: $(INSTALLED)
	mkdir -p build/example
	$(VENV)/bin/frametap run -o build/example/text_index.ftap examples/text_index.py
	$(VENV)/bin/frametap report build/example/text_index.ftap
	$(VENV)/bin/frametap export build/example/text_index.ftap build/example/text_index.pftrace

test: $(INSTALLED)
	$(VENV)/bin/python -m pytest -n auto

check: $(CHECKING)
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/clang-format --dry-run --Werror $(filter core/%.cpp core/%.h,$(SOURCES))
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(MAKE) --no-print-directory build PYTHON=$(VENV)/bin/python
	$(VENV)/bin/mypy
	PYTHONPATH=src $(VENV)/bin/python -m pytest -n auto -q -m "not slow"

bench: $(INSTALLED) $(BENCHMARKING)
	$(VENV)/bin/python -m benchmarks

build:
	cmake -S . -B build/$(TAG) -G Ninja -DPython_EXECUTABLE=$$($(PYTHON) -c 'import sys; print(sys.executable)') > /dev/null
	cmake --build build/$(TAG)
	cp build/$(TAG)/_core*.so src/frametap/

clean:
	rm -rf build $(VENV) src/frametap/_core*.so

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(SOURCES) | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet '.[test]'
	touch $@

$(CHECKING): pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet '.[test,dev]'
	touch $@

$(BENCHMARKING): | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet viztracer yappi pyperformance
	touch $@

.PHONY: example test check bench build clean
