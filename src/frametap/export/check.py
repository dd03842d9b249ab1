"""The one checker of all writers: a trace as it can be written, and what had to be mended for that.

In: a :class:`~frametap.table.Trace`, trusted in nothing but its types. Out: :class:`Checked`: per track the
calls nested and in order, process and thread ids that are unique and fit 31 bits, names that are valid
UTF-8, and the losses: the trace's own plus one row for each kind of repair made here. Invariant: on every
:class:`Stack` the rows are in preorder (a parent before its children), children lie inside their parents and
after their elder siblings, and ``parent`` and ``depth`` agree; a sound trace is passed on without a copy.

Readers accept crossing slices and show wrong lengths without a word, so nothing is left to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..errors import FrametapError
from ..table import Table, Trace

#: Levels that Perfetto nests; deeper begins never end there and steal the ends of the outer ones.
MAX_DEPTH = 512
#: Calls that are handled at once: the temporaries of one piece stay in the processor's cache.
PIECE = 1 << 15
#: Linux gives out no higher process or thread id (PID_MAX_LIMIT), so ids made here start above.
_FIRST_MADE_ID = (1 << 22) + 1
_MAX_ID = (1 << 31) - 1
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Loss:
    """One row of the losses, of the trace's or of the export's."""

    kind: str
    count: int
    process: int = -1  #: row of processes, -1 none
    thread: int = -1  #: row of threads, -1 none
    first_ns: int = -1
    last_ns: int = -1


@dataclass(frozen=True)
class Stack:
    """The calls of one track. Arrays of one length; ``parent`` counts from ``first_row``."""

    track: int
    first_row: int
    site: np.ndarray
    start_ns: np.ndarray
    duration_ns: np.ndarray
    self_ns: np.ndarray
    parent: np.ndarray  #: like the table's column: ``parent - first_row`` is an index into this stack
    depth: np.ndarray
    outcome: np.ndarray
    flags: np.ndarray
    instance: np.ndarray

    def __len__(self) -> int:
        return len(self.site)

    def pieces(self) -> Iterator[slice]:
        """Consecutive slices that cover the stack."""
        for first in range(0, len(self), PIECE):
            yield slice(first, min(first + PIECE, len(self)))


@dataclass(frozen=True, eq=False)
class Checked:
    """A trace, ready to write."""

    trace: Trace
    stacks: list[Stack]
    process_ids: list[int]  #: per row of processes; the system's where possible, else made
    thread_ids: list[int]  #: per row of threads; none equals another process's id
    function_names: list[str]
    function_files: list[str]
    track_names: list[str]
    thread_names: list[str]
    commands: list[str]
    mark_names: np.ndarray
    losses: list[Loss] = field(default_factory=list)

    def describe(self, loss: Loss) -> str:
        """A loss in words: kind, count, and where."""
        where = ""
        if loss.thread >= 0:
            where = f" in thread {self.thread_names[loss.thread]} ({self.thread_ids[loss.thread]})"
        elif loss.process >= 0:
            where = f" in process {self.process_ids[loss.process]}"
        return f"{loss.kind}: {loss.count}{where}"


def check(trace: Trace) -> Checked:
    """Return the trace as it can be written.

    Parameters
    ----------
    trace : Trace
        Any trace; it is not changed.

    Returns
    -------
    Checked
        With each repair as a row of ``losses``: ``export_repaired_calls``, ``export_changed_ids``,
        ``export_changed_names``. What a format cuts (see :func:`cut`) its writer adds.

    Raises
    ------
    FrametapError
        A column refers to a row that does not exist.
    """
    _check_references(trace)
    losses = [
        Loss(kind, int(count), int(process), int(thread), int(first), int(last))
        for kind, count, process, thread, first, last in zip(
            *(trace.losses[c].tolist() for c in ("kind", "count", "process", "thread", "first_ns", "last_ns")),
            strict=True,
        )
    ]
    stacks = []
    for stack in _split(trace.calls):
        n_repaired = 0
        if not _nests(stack):
            stack, n_repaired = _mend(stack)
        if n_repaired:
            losses.append(_loss_on(trace, "export_repaired_calls", stack.track, n_repaired, stack.start_ns))
        stacks.append(stack)

    process_ids = _unique_ids(trace.processes["pid"].tolist(), set())
    thread_ids = _thread_ids(trace, process_ids)
    n_changed = int(np.sum(np.array(process_ids) != trace.processes["pid"]))
    n_changed += int(np.sum(np.array(thread_ids) != trace.threads["native_id"]))
    if n_changed:
        losses.append(Loss("export_changed_ids", n_changed))

    functions, tracks, threads = trace.functions, trace.tracks, trace.threads
    columns = [functions["name"], functions["file"], tracks["name"], threads["name"], trace.processes["command"]]
    cleaned = [clean_names(c) for c in (*columns, trace.marks["name"])]
    n_changed = sum(n for _, n in cleaned)
    if n_changed:
        losses.append(Loss("export_changed_names", n_changed))
    names, files, track_names, thread_names, commands, mark_names = (texts for texts, _ in cleaned)
    return Checked(
        trace, stacks, process_ids, thread_ids, names, files, track_names, thread_names, commands,
        np.array(mark_names, dtype=object), losses,
    )  # fmt: skip


def cut(checked: Checked, stack: Stack, max_depth: int) -> tuple[np.ndarray | None, Loss | None]:
    """Return which rows of a stack lie within ``max_depth`` levels (None: all), and the loss of the others."""
    if not len(stack) or int(stack.depth.max()) < max_depth:
        return None, None
    keep = stack.depth < max_depth
    gone = ~keep
    return keep, _loss_on(checked.trace, "export_cut_depth", stack.track, int(gone.sum()), stack.start_ns[gone])


def made_ids(checked: Checked) -> Iterator[int]:
    """Ids that no process and no thread has, for rows that are neither."""
    avoid = {*checked.process_ids, *checked.thread_ids}
    return (i for i in range(_FIRST_MADE_ID, _MAX_ID) if i not in avoid)


def groups(keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each distinct key, ascending, with its positions in order."""
    if len(keys):
        order = np.argsort(keys, kind="stable")
        for rows in np.split(order, np.flatnonzero(keys[order][1:] != keys[order][:-1]) + 1):
            yield int(keys[rows[0]]), rows


def clean_names(texts: Iterable[str]) -> tuple[list[str], int]:
    r"""Return names as valid UTF-8 without NUL, and how many changed: lone surrogates become ``\udcff``, as text.

    Examples
    --------
    >>> clean_names(["f", "a\udcffb"])
    (['f', 'a\\udcffb'], 1)
    """
    out = []
    n_changed = 0
    for text in texts:
        if _UNWRITABLE.search(text):
            text = _UNWRITABLE.sub(lambda m: "\\0" if m[0] == "\0" else f"\\u{ord(m[0]):04x}", text)
            n_changed += 1
        out.append(text)
    return out, n_changed


def _loss_on(trace: Trace, kind: str, track: int, count: int, times: np.ndarray) -> Loss:
    thread = int(trace.tracks["thread"][track])
    return Loss(kind, count, int(trace.threads["process"][thread]), thread, int(times.min()), int(times.max()))


def _check_references(trace: Trace) -> None:
    for table, column, target in (
        (trace.calls, "site", trace.sites),
        (trace.calls, "track", trace.tracks),
        (trace.sites, "function", trace.functions),
        (trace.sites, "caller", trace.functions),
        (trace.functions, "process", trace.processes),
        (trace.tracks, "thread", trace.threads),
        (trace.threads, "process", trace.processes),
        (trace.marks, "track", trace.tracks),
        (trace.losses, "process", trace.processes),
        (trace.losses, "thread", trace.threads),
    ):
        if table.n_rows and int(table[column].max()) >= target.n_rows:
            raise FrametapError(
                f"the trace is damaged: {table.kind}.{column} refers to row {int(table[column].max())}, "
                f"but {target.kind} has {target.n_rows} rows"
            )


def _split(calls: Table) -> Iterator[Stack]:
    """The table's rows, track by track; views where a track's rows lie together, as they should."""
    names = ("site", "start_ns", "duration_ns", "self_ns", "parent", "depth", "outcome", "flags", "instance")
    columns = {name: calls[name] for name in names}
    track = calls["track"]
    if not len(track):
        return
    edges = np.flatnonzero(track[1:] != track[:-1]) + 1
    if len(edges) and len(np.unique(track[np.concatenate(([0], edges))])) != len(edges) + 1:
        order = np.argsort(track, kind="stable")
        track = track[order]
        columns = {name: column[order] for name, column in columns.items()}
        edges = np.flatnonzero(track[1:] != track[:-1]) + 1
        # Rows moved, so parents' numbers no longer hold: -2 is none that any row expects, all are redone.
        columns["parent"] = np.full(len(order), -2)
    for lo, hi in zip([0, *edges.tolist()], [*edges.tolist(), len(track)], strict=True):
        yield Stack(int(track[lo]), lo, **{name: column[lo:hi] for name, column in columns.items()})


def by_level(depth: np.ndarray) -> np.ndarray:
    """Positions sorted by depth, in order within each level (16-bit keys take NumPy's radix sort)."""
    narrow = depth.astype(np.uint16) if int(depth.max()) <= 0xFFFF else depth
    return np.argsort(narrow, kind="stable")


def _nests(stack: Stack) -> bool:
    """Whether the invariant holds. Piece by piece, exactly, with the last row of each level carried on.

    A row one level below the row before it is that row's child; any other has the parent of the last row
    on its level. That fixes the tree; it is sound if each row lies in its parent's time, and starts after
    the last row of its level ended.
    """
    last_on_level = np.full(int(stack.depth.max()) + 1, -1)
    depth, start, duration = stack.depth, stack.start_ns, stack.duration_ns
    for piece in stack.pieces():
        rows = np.arange(piece.start, piece.stop)
        d = depth[piece].astype(np.int64)
        s = start[piece]
        end = s + duration[piece]
        parent = stack.parent[piece]
        local = np.where(parent < 0, parent, parent - stack.first_row)
        step = np.diff(d, prepend=depth[piece.start - 1].astype(np.int64) if piece.start else -1)
        if (step > 1).any() or (duration[piece] < 0).any() or (local < -1).any() or (local >= rows).any():
            return False
        order = by_level(depth[piece])
        level = d[order]
        elder = np.empty(len(rows), dtype=np.int64)
        elder[1:] = rows[order[:-1]]
        first = np.concatenate(([True], level[1:] != level[:-1]))
        elder[first] = last_on_level[level[first]]
        last = np.concatenate((first[1:], [True]))
        last_on_level[level[last]] = rows[order[last]]
        has_elder = elder >= 0
        if (has_elder & (start[elder] + duration[elder] > s[order])).any():
            return False
        of_elder = stack.parent[elder]
        of_elder = np.where(of_elder < 0, -1, of_elder - stack.first_row)
        if (local[order] != np.where(step[order] == 1, rows[order] - 1, of_elder)).any():
            return False
        outside = (start[local] > s) | (end > start[local] + duration[local])
        if (outside & (local >= 0)).any():
            return False
    return True


def _mend(stack: Stack) -> tuple[Stack, int]:
    """A stack that holds the invariant, and the number of rows that changed in time, depth or parent.

    Order and depth decide the tree. Times give way: a child to its parent, a later sibling to an elder one.
    """
    n = len(stack)
    rows = np.arange(n)
    # The deepest that each row can be: one below the row before, which is a running minimum of depth - row.
    depth = rows + np.minimum(np.minimum.accumulate(stack.depth.astype(np.int64) - rows), 0)
    start = stack.start_ns.copy()
    end = start + np.maximum(stack.duration_ns, 0)
    parent = np.full(n, -1)
    self_ns = np.empty(n, dtype=np.int64)
    order = by_level(depth)
    edges = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2))
    above = np.empty(0, dtype=np.int64)
    for lo, hi in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here = order[lo:hi]
        if len(above):
            parent[here] = above[np.searchsorted(above, here) - 1]
            first, last = start[parent[here]], end[parent[here]]
            start[here] = np.clip(start[here], first, last)
            end[here] = np.clip(end[here], first, last)
        latest = np.maximum.accumulate(np.maximum(end[here], start[here]))
        start[here[1:]] = np.maximum(start[here[1:]], latest[:-1])
        end[here] = latest
        self_ns[here] = end[here] - start[here]
        if len(above):
            of_above = np.searchsorted(above, parent[here])
            inner = np.bincount(of_above, weights=self_ns[here], minlength=len(above)).astype(np.int64)
            self_ns[above] -= inner
        above = here
    linked = np.where(parent < 0, -1, parent + stack.first_row)
    changed = (
        (start != stack.start_ns)
        | (end - start != stack.duration_ns)
        | (depth != stack.depth)
        | ((linked != stack.parent) & (stack.parent != -2))
    )
    mended = Stack(
        stack.track, stack.first_row, stack.site, start, end - start, self_ns, linked,
        depth.astype(np.uint32), stack.outcome, stack.flags, stack.instance,
    )  # fmt: skip
    return mended, int(changed.sum())


def _unique_ids(wanted: list[int], taken: set[int]) -> list[int]:
    """Ids in 1 … 2^31-1, each once and none of ``taken``: the wanted one where it is free, else one made."""
    free = iter(range(_FIRST_MADE_ID, _MAX_ID))
    avoid = taken | set(wanted)
    used = set(taken)
    out = []
    for one in wanted:
        if not 0 < one <= _MAX_ID or one in used:
            one = next(i for i in free if i not in avoid)
        used.add(one)
        out.append(one)
    return out


def _thread_ids(trace: Trace, process_ids: list[int]) -> list[int]:
    """As :func:`_unique_ids`; a process's id is left to its own main thread, which readers know by it."""
    wanted = trace.threads["native_id"].tolist()
    process = trace.threads["process"].tolist()
    pids = trace.processes["pid"].tolist()
    main: dict[int, int] = {}
    for row, (native, p) in enumerate(zip(wanted, process, strict=True)):
        if native == pids[p] and process_ids[p] not in main:
            main[process_ids[p]] = row
    others = _unique_ids(
        [-1 if main.get(process_ids[p]) == row else w for row, (w, p) in enumerate(zip(wanted, process, strict=True))],
        set(process_ids),
    )
    for pid, row in main.items():
        others[row] = pid
    return others
