"""Turns results into the Markdown tables of README.md.

In: what compare.py returns. Out: Markdown, and README.md with the text between its two marks replaced.
Invariant: the same results give the same text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .tracers import TRACERS

BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
TITLES = {"torch": "torch.profiler"}


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _columns(results: dict[str, Any]) -> list[str]:
    """Tracers that ran on at least one workload."""
    ran = {t for w in results["workloads"].values() for t, row in w.get("tracers", {}).items() if "skipped" not in row}
    return [t for t in TRACERS if t in ran]


def _cost(row: dict[str, Any] | None) -> str:
    if row is None or "skipped" in row:
        return "–"
    ratio = row.get("ratio_to_frametap")
    return f"{row['added_ns_per_call']:.0f}" + (f" ({ratio:.1f}×)" if ratio is not None and ratio != 1 else "")


def _per_call(row: dict[str, Any], key: str) -> str:
    return " / ".join(f"{s[key]:.0f}" if s[key] >= 10 else f"{s[key]:.1f}" for s in row["saved"]) or "–"


def _complete(row: dict[str, Any]) -> str:
    surplus = f", {row['surplus']} too many" if row["surplus"] else ""
    return f"{100 * row['completeness']:.4g} %{surplus}"


def markdown(results: dict[str, Any]) -> str:
    """The tables: cost of recording on every workload, then everything else on the first."""
    env = results["environment"]
    columns = _columns(results)
    packages = ", ".join(f"{name} {version}" for name, version in env["packages"].items())
    where = f"pinned to {env['pinned_cpus']} CPU" if env["pinned_cpus"] else "not pinned"
    laps = f"{results['n_visits']} × {results['n_laps']} interleaved laps"
    parts = [
        f"CPython {env['python']}, {env['cpu']}, {where}; {packages}. Minimum over {laps}.",
        "Time added per Python call in nanoseconds (in brackets: how many times what frametap adds):",
    ]
    rows = []
    skipped: dict[str, str] = {}
    for name, w in results["workloads"].items():
        if "tracers" not in w:
            skipped[name] = w["skipped"]
            continue
        skipped |= {t: row["skipped"] for t, row in w["tracers"].items() if "skipped" in row}
        cells = [_cost(w["tracers"].get(t)) for t in columns]
        rows.append(
            [f"{name}: {w['what']}", f"{w['n_calls']:,}".replace(",", " "), f"{w['base_ns_per_call']:.0f}", *cells]
        )
    parts.append(_table(["program", "calls", "untraced, ns a call", *(TITLES.get(t, t) for t in columns)], rows))
    first = next((n for n, w in results["workloads"].items() if "tracers" in w), None)
    if first is not None:
        of_first = results["workloads"][first]["tracers"]
        parts.append(f"After and beside recording, per call of {first} (frametap: capture / Perfetto timeline):")
        rows = [
            [
                TITLES.get(t, t),
                f"{of_first[t]['resident_bytes_per_call']:.1f}",
                f"{of_first[t]['stop_ns_per_call']:.0f}",
                _per_call(of_first[t], "ns_per_call"),
                _per_call(of_first[t], "bytes_per_call"),
                _complete(of_first[t]),
            ]
            for t in columns
            if "saved" in of_first.get(t, {})
        ]
        head = ["tracer", "memory, B", "stop, ns", "save, ns", "on disk, B", "calls recorded"]
        parts.append(_table(head, rows))
    if skipped:
        parts.append("Not measured: " + "; ".join(f"{n} ({why})" for n, why in sorted(skipped.items())) + ".")
    return "\n\n".join(parts) + "\n"


def replace_in(readme: Path, text: str) -> bool:
    """Put *text* between the two marks; false where the file has none."""
    old = readme.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        return False
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    readme.write_text(f"{head}{BEGIN}\n{text}{END}{tail}", encoding="utf-8")
    return True
