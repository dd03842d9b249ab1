"""The pstats writer, read by pstats.Stats and held against cProfile's own rules, one call at a time."""

import io
import marshal
import pstats
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from export.traces import Thread, Track, build, call
from hypothesis import given, settings
from hypothesis import strategies as st

from frametap.export import export
from frametap.export import pstats as writer
from frametap.table import Trace


def read(trace: Trace) -> dict[Any, Any]:
    out = io.BytesIO()
    writer.write(trace, out)
    found: dict[Any, Any] = marshal.loads(out.getvalue())
    return found


def cprofile_rules(roots: list[list[Any]]) -> dict[str, list[Any]]:
    """What Modules/_lsprof.c does at each return: cc, nc, tt, ct, callers by name, times in ns."""
    stats: dict[str, list[Any]] = {}
    on_stack: Counter[Any] = Counter()

    def visit(one: Any, caller: str | None) -> None:
        pair = (caller, one.name)
        on_stack[one.name] += 1
        on_stack[pair] += 1
        for child in one.children:
            visit(child, one.name)
        on_stack[one.name] -= 1
        on_stack[pair] -= 1
        took = one.end - one.start
        inner = sum(c.end - c.start for c in one.children)
        cc, nc, tt, ct, callers = stats.setdefault(one.name, [0, 0, 0, 0, {}])
        outermost = not on_stack[one.name]
        stats[one.name][:4] = cc + outermost, nc + 1, tt + took - inner, ct + took * outermost
        if caller is not None:
            nc, cc, tt, ct = callers.get(caller, (0, 0, 0, 0))
            outermost = not on_stack[pair]
            callers[caller] = (nc + 1, cc + outermost, tt + took - inner, ct + took * outermost)

    for track in roots:
        for one in track:
            visit(one, None)
    return stats


@st.composite
def nested(draw: st.DrawFn, first: int = 0, levels: int = 5) -> list[Any]:
    calls = []
    for _ in range(draw(st.integers(0, 3 if levels else 0))):
        first += draw(st.integers(0, 2))
        children = draw(nested(first, levels - 1))
        end = (children[-1].end if children else first) + draw(st.integers(0, 3))
        calls.append(call(draw(st.sampled_from("fgh")), first, end, children))
        first = end
    return calls


@settings(max_examples=60, deadline=None)
@given(tracks=st.lists(nested(), min_size=1, max_size=3))
def test_any_nested_calls_are_summed_as_cprofile_does(tracks: list[Any]) -> None:
    threads = [Thread(200 + k, f"t{k}") for k in range(len(tracks))]
    found = read(build([Track(calls, k) for k, calls in enumerate(tracks)], threads=threads))
    in_ns = {
        key[2]: [cc, nc, round(tt * 1e9), round(ct * 1e9),
                 {c[2]: (n, p, round(t * 1e9), round(u * 1e9)) for c, (n, p, t, u) in callers.items()}]
        for key, (cc, nc, tt, ct, callers) in found.items() if nc
    }  # fmt: skip
    assert in_ns == cprofile_rules(tracks)


def test_stats_loads_prints_and_keeps_methods_of_one_name_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = build(
        [[call("A.run", 0, 10**9, [call("B.run", 0, 10**8), call("list.append", 10**8, 10**8 + 5, kind="c")])]],
        losses=[("dropped_events", 2, -1, -1, -1, -1)],
    )
    export(trace, tmp_path / "x.prof")
    stats = pstats.Stats(str(tmp_path / "x.prof"))
    stats.print_stats()
    stats.print_callers()
    printed = capsys.readouterr().out
    assert "mod.py:3(A.run)" in printed and "mod.py:3(B.run)" in printed
    assert "{built-in method list.append}" in printed and "loss dropped_events: 2" in printed
    assert stats.total_calls == 3 and stats.total_tt == pytest.approx(1.0)  # type: ignore[attr-defined]


def test_empty_trace_loads(tmp_path: Path) -> None:
    export(build([]), tmp_path / "x.pstats")
    assert pstats.Stats(str(tmp_path / "x.pstats")).total_calls == 0  # type: ignore[attr-defined]
