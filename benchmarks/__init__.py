"""Benchmarks: what tracing costs, for frametap and its peers, measured side by side.

``python -m benchmarks`` compares; ``python -m benchmarks.budget`` checks frametap's own budget;
``python -m benchmarks.hundred_million`` records a very long run. See README.md in this folder.
"""
