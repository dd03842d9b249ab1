"""Sentences about a trace that every report shows: what it holds, and what is missing from it.

In: a trace. Out: lines of text. Invariant: "no losses" is said only if there are none.
"""

from __future__ import annotations

from ..analyse import losses
from ..table import Trace
from ..table.losses import LOSSES
from .tables import count, duration, printable


def extent(trace: Trace) -> str:
    """How much there is."""
    parts = [
        count(trace.n_calls, "call"),
        count(trace.threads.n_rows, "thread"),
        count(trace.processes.n_rows, "process", "processes"),
    ]
    return f"{', '.join(parts)}, {duration(trace.duration_ns)}"


def missing(trace: Trace) -> list[str]:
    """What is missing or was repaired, explained, a line each; one line "no losses" if nothing is."""
    lines = _killed(trace)
    for kind, n in _losses_by_kind(trace).items():
        known = LOSSES.get(kind)
        meaning = f": {known.counts}; {known.effect}" if known else ""
        lines.append(f"{kind} {n:,}{meaning}")
    lines += [printable(str(sentence)) for sentence in trace.meta.get("damage", ())]
    return lines or ["no losses"]


def missing_in_short(trace: Trace) -> list[str]:
    """The same in one line, without explanations, and one for each killed process."""
    kinds = ", ".join(f"{kind} {n:,}" for kind, n in _losses_by_kind(trace).items())
    return _killed(trace) + ([f"losses: {kinds}; explained by frametap info"] if kinds else []) or ["no losses"]


def _killed(trace: Trace) -> list[str]:
    lines = []
    for pid, complete in zip(trace.processes["pid"].tolist(), trace.processes["complete"].tolist(), strict=True):
        if not complete:
            lines.append(f"process {pid} did not end its recording (killed?); what it had written is here")
    return lines


def _losses_by_kind(trace: Trace) -> dict[str, int]:
    total: dict[str, int] = {}
    for row in losses(trace):
        total[row["kind"]] = total.get(row["kind"], 0) + row["count"]
    return total


def c_calls_recorded(trace: Trace) -> bool:
    """Whether C functions have calls of their own."""
    return bool(trace.meta.get("options", {}).get("c_calls"))


def working_folder(trace: Trace) -> str:
    """The folder that file names are shown relative to: where the first process started; "" unknown."""
    for process in trace.meta.get("processes", ()):
        return str(process.get("working_directory", ""))
    return ""
