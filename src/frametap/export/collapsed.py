"""Collapsed stacks, for flame graphs: one line per distinct stack, ``root;…;leaf NUMBER``.

Specification: https://github.com/brendangregg/FlameGraph#2-fold-stacks; read by flamegraph.pl, speedscope, inferno.

In: a trace. Out: UTF-8 lines. Invariant: the number is the stack's self time in integer nanoseconds, so that the
lines' sum is the traced time; every stack occurs once; no frame holds a semicolon or a line break.

The first frame names process and thread. Frames say ``name (file:line)``, as names alone need not be unique. Below
:data:`MAX_FRAMES` frames a stack ends in a frame that says so and has the time of all below it. Losses are lines
too, of one nanosecond each, since the format has no other place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ..table import Trace
from .check import Checked, check
from .names import short_path
from .tree import Tree, grow

#: Frames of the deepest stack: lines of unbounded recursion would be of unbounded length.
MAX_FRAMES = 1000
_DEEPER = "[deeper]"
_BREAKS = re.compile(r"[;\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]")
_MAX_BYTES = 1 << 20


def write(trace: Trace, out: BinaryIO) -> None:
    """Write a trace as collapsed stacks.

    Parameters
    ----------
    trace : Trace
        Any trace; what cannot be shown as it is is mended or cut, counted, and told in the file.
    out : binary file
        Written to in pieces, never read or sought.
    """
    checked = check(trace)
    texts: dict[str, int] = {}
    n_changed = 0
    functions = trace.functions
    frames = np.empty(functions.n_rows, dtype=np.int64)
    for k, (name, file, line) in enumerate(
        zip(checked.function_names, checked.function_files, functions["line"].tolist(), strict=True)
    ):
        text = f"{name} ({short_path(file)}:{line})" if file else name
        n_changed += _frame(name) != name
        frames[k] = texts.setdefault(_frame(text), len(texts))
    roots = np.empty(trace.tracks.n_rows, dtype=np.int64)
    first_root = len(texts)
    root_texts: dict[str, int] = {}
    for k, thread in enumerate(trace.tracks["thread"].tolist()):
        text = f"{_process(checked, int(trace.threads['process'][thread]))} {checked.track_names[k]}"
        roots[k] = first_root + root_texts.setdefault(_frame(text), len(root_texts))
    tree = grow(checked, frames, roots)
    pending: list[bytes] = []
    size = 0
    for line_bytes in _lines(tree, [t.encode() for t in (*texts, *root_texts)]):
        pending.append(line_bytes)
        size += len(line_bytes)
        if size > _MAX_BYTES:
            out.write(b"".join(pending))
            pending, size = [], 0
    told = [checked.describe(loss) for loss in checked.losses]
    told += [f"export_changed_frames: {n_changed}"] if n_changed else []
    pending += [f"[frametap losses];{_frame(text)} 1\n".encode() for text in told]
    out.write(b"".join(pending))


def _process(checked: Checked, process: int) -> str:
    return f"{checked.commands[process] or 'python'} [{checked.process_ids[process]}]"


def _frame(text: str) -> str:
    """A name without what separates frames and lines. Blanks may stay: the last one in a line is the number's."""
    return _BREAKS.sub(lambda m: ":" if m[0] == ";" else " ", text).strip() or "(no name)"


def _lines(tree: Tree, texts: list[bytes]) -> Iterator[bytes]:
    """One line per node with self time, depth first."""
    first_child = tree.first_child().tolist()
    frame, self_ns = tree.frame.tolist(), tree.self_ns.tolist()
    inclusive_ns = tree.inclusive_ns().tolist()
    n_roots = int(np.searchsorted(tree.parent, 0))
    work = [(k, 0) for k in reversed(range(n_roots))]
    path: list[bytes] = []
    while work:
        node, depth = work.pop()
        del path[depth:]
        path.append(texts[frame[node]])
        if self_ns[node]:
            yield b"%s %d\n" % (b";".join(path), self_ns[node])
        if depth + 1 < MAX_FRAMES:
            work += [(k, depth + 1) for k in reversed(range(first_child[node], first_child[node + 1]))]
        elif inclusive_ns[node] > self_ns[node]:
            yield b"%s;%s %d\n" % (b";".join(path), _DEEPER.encode(), inclusive_ns[node] - self_ns[node])
