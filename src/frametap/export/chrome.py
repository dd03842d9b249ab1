"""Chrome's JSON trace in the dialect of Kineto, PyTorch's profiler: what readers of torch traces expect.

Specification: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format);
https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp (names, ids, base time).

In: a trace. Out: one JSON object, ASCII, in bounded pieces. Invariant: calls are complete events (``X``), never
begin and end, a parent before its children; no two on one row cross; ``ts`` and ``dur`` are exact to the
nanosecond, relative to ``baseTimeNanoseconds``. A row is a thread (``tid``): greenlets and the spans of users,
which need not nest in calls, have rows of their own. ``Python id`` is the call's row in the table plus one.

An event is a prefix, which it has in common with others of its function, and numbers padded with blanks to one
width; so whole columns are written at once. The sort of file for programs: for people, Perfetto's own format is
five times smaller.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from ..table import Trace
from ..table.schema import CallFlag, Outcome
from ..version import __version__
from . import wire
from .check import MAX_DEPTH, Checked, Loss, Stack, check, clean_names, cut, groups, made_ids
from .digits import n_digits, put_decimal, put_thousandths
from .lanes import lanes, nesting
from .names import kineto_names

#: Kineto's base time is the wall time rounded down to this, about three months.
_BASE_STEP_NS = 7_889_238 * 10**9
_CATEGORY_OF = {"python": "python_function", "c": "python_function", "gc": "python_gc"}
_NOTED = int(CallFlag.BEGUN_BEFORE | CallFlag.START_GUESSED | CallFlag.END_GUESSED | CallFlag.CUT)
#: An event of such a name makes speedscope take the whole file for a profile of Chrome's.
_MISREAD = ("Profile", "ProfileChunk", "CpuProfile")
#: Most bytes of one write, unless a single event is longer.
_MAX_BYTES = 16 << 20


def write(trace: Trace, out: BinaryIO) -> None:
    """Write a trace as Chrome JSON.

    Parameters
    ----------
    trace : Trace
        Any trace; what cannot be shown as it is is mended or cut, counted, and told in the file.
    out : binary file
        Written to in pieces, never read or sought.
    """
    _Writer(check(trace), out).write()


@dataclass(frozen=True)
class _Prefixes:
    """Texts by key, those of one length in one table: ``tables[group[key]][row[key]]``."""

    length: np.ndarray
    group: np.ndarray
    row: np.ndarray
    tables: list[np.ndarray]


@dataclass
class _Writer:
    checked: Checked
    out: BinaryIO
    losses: list[Loss] = field(default_factory=list)

    def write(self) -> None:
        checked, trace = self.checked, self.checked.trace
        self.losses = list(checked.losses)
        earliest = min([0, *(int(s.start_ns[0]) for s in checked.stacks)])
        base_ns = (trace.start_wall_ns + earliest) // _BASE_STEP_NS * _BASE_STEP_NS
        self.shift_ns = trace.start_wall_ns - base_ns
        self.new_tid = made_ids(checked)
        self.names = kineto_names(trace.functions, checked.function_names, checked.function_files)
        self.categories = [_CATEGORY_OF.get(str(k), "python_function") for k in trace.functions["kind"]]
        head = {
            "schemaVersion": 1, "deviceProperties": [], "with_stack": 1,
            "host_name": clean_names([str(trace.meta.get("host", ""))])[0][0], "displayTimeUnit": "ms", "baseTimeNanoseconds": base_ns,
        }  # fmt: skip
        self.out.write((json.dumps(head)[:-1] + ', "traceEvents": [\n').encode())
        self._describe_rows()
        for stack in checked.stacks:
            self._write_stack(stack)
        self._write_marks()
        self._write_account()

    def _event(self, **fields: Any) -> None:
        self.out.write((json.dumps(fields, allow_nan=False) + ",\n").encode())

    def _us(self, ns: int) -> Any:
        return _Exact(ns + self.shift_ns)

    # --- rows ----------------------------------------------------------------------------------------------------

    def _describe_rows(self) -> None:
        checked, trace = self.checked, self.checked.trace
        for p, pid in enumerate(checked.process_ids):
            real = int(trace.processes["pid"][p])
            labels = [f"Python {trace.processes['python'][p]}"]
            labels += [] if pid == real else [f"process id {real}"]
            labels += [] if trace.processes["complete"][p] else ["recovered: it was killed"]
            self._name("process_name", pid, 0, name=checked.commands[p] or "python")
            self._name("process_labels", pid, 0, labels=", ".join(labels))
            self._name("process_sort_index", pid, 0, sort_index=p)
        self.track_ids: list[tuple[int, int]] = []
        for t, tid in enumerate(checked.thread_ids):
            pid = checked.process_ids[int(trace.threads["process"][t])]
            self._name("thread_name", pid, tid, name=checked.thread_names[t])
            self._name("thread_sort_index", pid, tid, sort_index=t)
        for k in range(trace.tracks.n_rows):
            t = int(trace.tracks["thread"][k])
            pid, tid = checked.process_ids[int(trace.threads["process"][t])], checked.thread_ids[t]
            if trace.tracks["stack"][k]:
                tid = next(self.new_tid)
                self._name("thread_name", pid, tid, name=checked.track_names[k])
                self._name("thread_sort_index", pid, tid, sort_index=t)
            self.track_ids.append((pid, tid))

    def _name(self, kind: str, pid: int, tid: int, **args: Any) -> None:
        self._event(ph="M", name=kind, pid=pid, tid=tid, ts=0, args=args)

    # --- calls ---------------------------------------------------------------------------------------------------

    def _write_stack(self, stack: Stack) -> None:
        keep, loss = cut(self.checked, stack, MAX_DEPTH)
        if loss:
            self.losses.append(loss)
        function_of_site = self.checked.trace.sites["function"].astype(np.int64)

        def keys(piece: slice) -> np.ndarray:
            told = (stack.outcome[piece].astype(np.int64) << 4) | (stack.flags[piece] & _NOTED)
            result: np.ndarray = function_of_site[stack.site[piece]] << 8 | told
            return result

        used = np.zeros(self.checked.trace.functions.n_rows << 8, dtype=bool)
        for piece in stack.pieces():
            used[keys(piece)] = True
        prefixes = self._prefixes(stack.track, np.flatnonzero(used), len(used))
        for piece in stack.pieces():
            rows = np.arange(piece.start, piece.stop) if keep is None else piece.start + np.flatnonzero(keep[piece])
            key = keys(piece) if keep is None else keys(piece)[keep[piece]]
            self._write_calls(stack, rows, key, prefixes)

    def _prefixes(self, track: int, keys: np.ndarray, n_keys: int) -> _Prefixes:
        """The texts that events of the used keys begin with. A key is function, outcome (4 bits), flags (4 bits)."""
        pid, tid = self.track_ids[track]
        by_length: dict[int, list[bytes]] = {}
        groups: dict[int, int] = {}
        length, group, row = (np.zeros(n_keys, dtype=np.int32) for _ in range(3))
        for key in keys.tolist():
            function, outcome, flags = key >> 8, key >> 4 & 15, key & 15
            args = {"outcome": Outcome(outcome).name.lower()} if outcome else {}
            args |= {"note": ", ".join(f.name.lower() for f in CallFlag(flags) if f.name)} if flags else {}
            told = json.dumps(args, separators=(",", ":"))[1:-1] + "," if args else ""
            text = (
                f'{{"ph":"X","cat":"{self.categories[function]}","name":{json.dumps(self.names[function])},'
                f'"pid":{pid},"tid":{tid},"args":{{{told}'
            ).encode()
            group[key] = groups.setdefault(len(text), len(groups))
            length[key] = len(text)
            texts = by_length.setdefault(len(text), [])
            row[key] = len(texts)
            texts.append(text)
        tables = [np.frombuffer(b"".join(t), dtype=np.uint8).reshape(len(t), -1) for t in by_length.values()]
        return _Prefixes(length, group, row, tables)

    def _write_calls(self, stack: Stack, rows: np.ndarray, key: np.ndarray, prefixes: _Prefixes) -> None:
        n = len(rows)
        if not n:
            return
        lengths = prefixes.length[key].astype(np.int64)
        if n > 1 and int(lengths.sum()) > _MAX_BYTES:
            half = n // 2
            self._write_calls(stack, rows[:half], key[:half], prefixes)
            self._write_calls(stack, rows[half:], key[half:], prefixes)
            return
        instance = stack.instance[rows]
        numbered = instance != 0
        classes = [np.flatnonzero(~numbered), np.flatnonzero(numbered)] if numbered.any() else [np.arange(n)]
        tails = [self._tails(stack, rows[c], bool(k)) for k, c in enumerate(classes)]
        size = lengths.copy()
        for chosen, tail in zip(classes, tails, strict=True):
            size[chosen] += tail.shape[1]
        ends = np.cumsum(size)
        out = np.empty(int(ends[-1]), dtype=np.uint8)
        starts = ends - size
        groups = prefixes.group[key].astype(np.uint16)
        order = np.argsort(groups, kind="stable")
        edges = np.flatnonzero(np.diff(groups[order])) + 1
        for chosen in np.split(order, edges):
            table = prefixes.tables[groups[chosen[0]]]
            wire.scatter(out, starts[chosen], wire.take(table, prefixes.row[key[chosen]]))
        for chosen, tail in zip(classes, tails, strict=True):
            wire.scatter(out, (starts + lengths)[chosen], tail)
        self.out.write(out.data)

    def _tails(self, stack: Stack, rows: np.ndarray, numbered: bool) -> np.ndarray:
        """The rest of each event: its numbers, shape (n, width)."""
        duration = stack.duration_ns[rows]
        start = stack.start_ns[rows] + self.shift_ns
        ids = rows + (stack.first_row + 1)
        parents = stack.parent[rows] + 1
        columns = [("instance", stack.instance[rows].astype(np.int64))] if numbered else []
        columns += [("Python id", ids), ("Python parent id", parents)]
        template = b""
        places: list[tuple[Callable[[np.ndarray, np.ndarray], None], int, int, np.ndarray]] = []
        for name, values in columns:
            template += (',"' if template else '"').encode() + name.encode() + b'":'
            # Four, as a call without parent says null.
            width = max(4, n_digits(int(values.max(initial=0))))
            places.append((put_decimal, len(template), width, values))
            template += b" " * width
        for name, values in (('},"ts":', start), (',"dur":', duration)):
            template += name.encode()
            width = n_digits(int(values.max(initial=0)) // 1000) + 4
            places.append((put_thousandths, len(template), width, values))
            template += b" " * width
        template += b"},\n"
        tails = np.empty((len(rows), len(template)), dtype=np.uint8)
        tails[:] = np.frombuffer(template, dtype=np.uint8)
        for put, at, width, values in places:
            put(tails[:, at : at + width], values)
            if values is parents:
                tails[parents == 0, at : at + width] = np.frombuffer(b"null".rjust(width), dtype=np.uint8)
        return tails

    # --- marks ---------------------------------------------------------------------------------------------------

    def _write_marks(self) -> None:
        """Users' marks, one by one: they are few beside calls."""
        trace = self.checked.trace
        names = [f"{name} (mark)" if name in _MISREAD else name for name in self.checked.mark_names.tolist()]
        marks = trace.marks
        for track, on_track in groups(marks["track"]):
            pid, tid = self.track_ids[track]
            kinds = marks["kind"][on_track]
            rows = on_track[kinds == "span"]
            start = marks["start_ns"][rows]
            end = start + np.maximum(marks["duration_ns"][rows], 0)
            order = np.lexsort((-end, start))
            rows, start, end = rows[order], start[order], end[order]
            lane = lanes(start, end)
            for k in range(int(lane.max(initial=-1)) + 1):
                lane_tid = next(self.new_tid)
                name = f"{self.checked.track_names[track]}: spans" + (f" ({k + 1})" if k else "")
                self._name("thread_name", pid, lane_tid, name=name)
                chosen = lane == k
                depth, _ = nesting(start[chosen], end[chosen])
                if (depth >= MAX_DEPTH).any():
                    thread = int(trace.tracks["thread"][track])
                    self.losses.append(Loss("export_cut_depth", int((depth >= MAX_DEPTH).sum()), thread=thread))
                for row, first, last in zip(
                    *(a[chosen][depth < MAX_DEPTH].tolist() for a in (rows, start, end)), strict=True
                ):
                    self._raw(
                        '{{"ph": "X", "cat": "user_annotation", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}}}',
                        json.dumps(names[row]), pid, lane_tid, self._us(first), _Exact(last - first),
                    )  # fmt: skip
            for row in on_track[kinds == "instant"].tolist():
                self._raw(
                    '{{"ph": "i", "s": "t", "cat": "user_annotation", "name": {}, "pid": {}, "tid": {}, "ts": {}}}',
                    json.dumps(names[row]), pid, tid, self._us(int(marks["start_ns"][row])),
                )  # fmt: skip
            counters = on_track[kinds == "counter"]
            finite = np.isfinite(marks["value"][counters])
            if not finite.all():
                self.losses.append(Loss("export_dropped_counters", int((~finite).sum())))
            for row in counters[finite].tolist():
                # Readers merge counters of one name within a process, so the name has the row's.
                name = f"{names[row]} ({self.checked.track_names[track]} {tid})"
                self._raw(
                    '{{"ph": "C", "name": {}, "pid": {}, "tid": {}, "ts": {}, "args": {{"value": {}}}}}',
                    json.dumps(name), pid, tid, self._us(int(marks["start_ns"][row])), repr(marks["value"][row].item()),
                )  # fmt: skip

    def _raw(self, form: str, *values: object) -> None:
        self.out.write((form.format(*values) + ",\n").encode())

    # --- account -------------------------------------------------------------------------------------------------

    def _write_account(self) -> None:
        """What was recorded and what was lost: as an object for programs, as instants for people."""
        checked = self.checked
        pid = checked.process_ids[0] if checked.process_ids else 0
        told = [loss.__dict__ for loss in self.losses]
        for loss in self.losses:
            where = checked.process_ids[loss.process] if loss.process >= 0 else pid
            self._raw(
                '{{"ph": "i", "s": "p", "cat": "frametap", "name": {}, "pid": {}, "tid": {}, "ts": {}, "args": {}}}',
                json.dumps(f"loss: {checked.describe(loss)}"), where,
                checked.thread_ids[loss.thread] if loss.thread >= 0 else where,
                self._us(max(loss.first_ns, 0)), json.dumps({"kind": loss.kind, "count": loss.count}),
            )  # fmt: skip
        about = {"version": __version__, "calls": checked.trace.n_calls, "losses": told}
        # The last event has no comma after it. It says again what the first process was told.
        last = {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "ts": 0, "args": {"sort_index": 0}}
        self.out.write(
            (json.dumps(last) + f'\n], "traceName": "frametap", "frametap": {json.dumps(about)}}}\n').encode()
        )


class _Exact:
    """Nanoseconds that are written as microseconds with three decimals."""

    def __init__(self, ns: int) -> None:
        self.ns = ns

    def __str__(self) -> str:
        return f"{self.ns // 1000}.{self.ns % 1000:03d}"
