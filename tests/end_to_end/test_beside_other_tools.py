"""Other profilers, debuggers and coverage tools see what they see untraced, and so do we."""

import sys

import pytest

LOAD = """
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def gen(n):
    for i in range(n): yield i
def load():
    fib(10); list(gen(5)); sorted([3, 1], key=lambda x: x)
"""

SETTRACE = (
    LOAD
    + """
import sys
seen = []
def tracer(frame, event, arg):
    if frame.f_code.co_filename == __file__: seen.append((event, frame.f_lineno, frame.f_code.co_name))
    return tracer
sys.settrace(tracer)
load()
sys.settrace(None)
print(len(seen), seen[:50])
load()
"""
)

SETPROFILE = (
    LOAD
    + """
import sys
seen = []
def profiler(frame, event, arg):
    if frame.f_code.co_filename == __file__:
        seen.append((event, frame.f_lineno, frame.f_code.co_name, getattr(arg, "__name__", "")))
sys.setprofile(profiler)
load()
sys.setprofile(None)
# where C calls are watched already, the profiler's first event is the return of the call that set it
while seen[0][0] == "c_return": del seen[0]
print(len(seen), seen[:50])
load()
"""
)

CPROFILE = (
    LOAD
    + """
import cProfile, io, pstats
p = cProfile.Profile()
p.enable(); load(); p.disable()
rows = sorted((key[2], *value[:2]) for key, value in pstats.Stats(p).stats.items())
print(rows)
load()
"""
)

MONITORING = (
    LOAD
    + """
import sys
seen = []
m = sys.monitoring
m.use_tool_id(m.COVERAGE_ID, "other")
for event, name in ((m.events.PY_START, "start"), (m.events.PY_RETURN, "return"), (m.events.LINE, "line")):
    def note(code, *rest, name=name):
        if code.co_filename == __file__: seen.append((name, code.co_name, rest[0]))
        return m.DISABLE if name == "line" else None
    m.register_callback(m.COVERAGE_ID, event, note)
m.set_events(m.COVERAGE_ID, m.events.PY_START | m.events.PY_RETURN | m.events.LINE)
load()
m.set_events(m.COVERAGE_ID, 0)
print(len(seen), seen)
m.restart_events()
load()
"""
)

TOOLS = {"settrace": SETTRACE, "setprofile": SETPROFILE, "cProfile": CPROFILE}
if sys.version_info >= (3, 12):
    TOOLS["monitoring"] = MONITORING
FIB_10 = 177


@pytest.mark.parametrize("tool", TOOLS)
def test_another_tool_sees_the_same_and_so_do_we(run_traced, run_plain, tool):
    plain = run_plain(TOOLS[tool])
    r = run_traced(TOOLS[tool])
    assert r.stdout == plain.stdout
    assert (r.count("load"), r.count("fib"), r.count("gen")) == (2, 2 * FIB_10, 12)


@pytest.mark.parametrize("tool", TOOLS)
def test_another_tool_beside_c_calls_does_no_harm(run_traced, run_plain, tool):
    plain = run_plain(TOOLS[tool])
    # on 3.11 there is one profile function for all: the other tool takes it, and that is told
    displaced = ["c_calls_displaced", "hook_displaced", "gone_unseen"] if sys.version_info < (3, 12) else []
    r = run_traced(TOOLS[tool], "--c-calls", losses=displaced)
    if tool != "cProfile":  # it would count the calls of C functions that tracing makes
        assert r.stdout == plain.stdout
    if not r.losses():
        assert (r.count("load"), r.count("fib")) == (2, 2 * FIB_10)


@pytest.mark.parametrize("order", ["outside", "inside", "crossed"])
def test_cprofile_around_us_in_us_and_crossed(run_api, order):
    steps = {
        "outside": "p.enable(); tap.start(); load(); tap.stop(); p.disable()",
        "inside": "tap.start(); p.enable(); load(); p.disable(); tap.stop()",
        "crossed": "tap.start(); p.enable(); load(); tap.stop(); p.disable()",
    }
    r = run_api(
        LOAD
        + "import cProfile, pstats, sys, frametap\n"
        + "p, tap = cProfile.Profile(), frametap.trace(sys.argv[1])\n"
        + steps[order]
        + "\nprint({k[2]: v[1] for k, v in pstats.Stats(p).stats.items() if k[2] in ('fib', 'load', 'gen')})\n"
    )
    assert eval(r.stdout) == {"load": 1, "fib": FIB_10, "gen": 6}
    assert (r.count("load"), r.count("fib"), r.count("gen")) == (1, FIB_10, 6)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_no_tool_id_left_is_a_clear_error(run_plain):
    p = run_plain(
        """
        import sys
        for i in range(6): sys.monitoring.use_tool_id(i, f"tool {i}")
        import frametap
        tap = frametap.trace(sys.argv[1])
        try: tap.start()
        except frametap.UnsupportedError as error: print("refused:", error)
        """,
        "unused.ftap",
    )
    assert p.stdout.startswith("refused: ")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")
def test_the_tool_id_is_given_back(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def taken(): return [sys.monitoring.get_tool(i) for i in range(6)]
        before = taken()
        with frametap.trace(sys.argv[1]): print(len(set(taken()) - {None}))
        print(taken() == before)
        """
    )
    assert r.stdout == "1\nTrue\n"


def test_a_program_that_clears_every_hook_still_runs(run_traced):
    r = run_traced(
        LOAD
        + """
import sys, threading
load()
sys.setprofile(None); sys.settrace(None); threading.setprofile(None); threading.settrace(None)
load()
print("done")
""",
        "--c-calls",
        losses=["c_calls_displaced", "hook_displaced", "gone_unseen"] if sys.version_info < (3, 12) else [],
    )
    assert r.stdout == "done\n"
    assert r.count("fib") >= FIB_10


def test_what_the_program_can_see_of_frames_is_unchanged(run_traced, run_plain):
    source = """
    import gc, inspect, sys, traceback, weakref
    def who(): return [f.function for f in inspect.stack()][:3]
    def caller(): return who()
    class Thing: pass
    def gone():
        t = Thing(); r = weakref.ref(t); del t; return r() is None
    def trace():
        try: 1 / 0
        except ZeroDivisionError as e: return [f.name for f in traceback.extract_tb(e.__traceback__)]
    print(caller(), gone(), trace(), sys.getprofile(), sys.gettrace())
    print(sys._getframe().f_code.co_name, sys._getframe().f_back is None or True)
    """
    assert run_traced(source).stdout == run_plain(source).stdout
