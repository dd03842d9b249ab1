# `make build` compiles the core into the source tree for the interpreter in PYTHON.
PYTHON ?= python3
TAG := $(shell $(PYTHON) -c 'import sys; print(sys.implementation.cache_tag)')

build:
	cmake -S . -B build/$(TAG) -G Ninja -DPython_EXECUTABLE=$$($(PYTHON) -c 'import sys; print(sys.executable)') > /dev/null
	cmake --build build/$(TAG)
	cp build/$(TAG)/_core*.so src/frametap/

.PHONY: build
