"""Exceptions: the program runs as untraced, and each call that raises says so."""

import sys

import pytest

RAISING = """
import contextlib, functools, sys
sys.unraisablehook = lambda *a: None
def bad(x): raise ValueError(x)
def through_sorted():
    try: sorted([1, 2], key=bad)
    except ValueError: pass
def through_map():
    try: list(map(bad, [1]))
    except ValueError: pass
def c_raise():
    try: int("x")
    except ValueError: pass
class D:
    def __del__(self): return bad(1)
def deleted():
    d = D(); del d
def suppressed():
    with contextlib.suppress(ValueError): bad(3)
def partial_call():
    try: functools.partial(bad, 1)()
    except ValueError: pass
def constructor():
    class A:
        def __init__(self): raise RuntimeError
    try: A()
    except RuntimeError: pass
def class_builtin():
    class K:
        f = classmethod(repr)
    K.f(); K().f()
for _ in range(20):
    through_sorted(); through_map(); c_raise(); deleted(); suppressed(); partial_call(); constructor(); class_builtin()
print("done")
"""


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
def test_every_raising_call_is_recorded_as_raised(run_traced, options):
    r = run_traced(RAISING, *options)
    assert r.stdout == "done\n"
    assert r.outcomes("bad") == {"RAISED": 100}
    assert r.outcomes("D.__del__") == {"RAISED": 20}
    assert r.outcomes("constructor.<locals>.A.__init__") == {"RAISED": 20}
    for survivor in ("through_sorted", "through_map", "deleted", "suppressed", "partial_call", "class_builtin"):
        assert r.outcomes(survivor) == {"RETURNED": 20}


LIMIT = """
import sys
deepest = 0
def rec(n):
    global deepest
    deepest = n
    return rec(n + 1)
def through_map(n):
    global deepest
    deepest = n
    return list(map(through_map, [n + 1]))
{start}
for f in (rec, rec, through_map):
    try: f(0)
    except RecursionError: print(deepest + 1)
{stop}
"""
START = "import frametap; tap = frametap.trace(sys.argv[1]); tap.start()"


def test_recursion_reaches_the_same_limit_as_untraced(run_api, run_plain):
    plain = run_plain(LIMIT.format(start="", stop="")).stdout.split()
    r = run_api(LIMIT.format(start=START, stop="tap.stop()"))
    traced = r.stdout.split()
    assert traced[:2] == plain[:2]
    assert r.count("rec") == int(traced[0]) + int(traced[1])
    assert r.count("through_map") == int(traced[2])
    assert set(r.outcomes("rec")) == {"RAISED"}
    # where C frames count extra, tracing may count them a little otherwise, but never ends the recursion early
    assert int(traced[2]) >= int(plain[2]) - (0 if sys.version_info < (3, 14) else 20)


def test_a_program_recurses_as_deep_as_under_python(run_traced, run_plain):
    plain = run_plain(LIMIT.format(start="", stop="")).stdout.split()
    traced = run_traced(LIMIT.format(start="", stop="")).stdout.split()
    assert traced[:2] == plain[:2]


def test_an_uncaught_exception_ends_the_program_as_untraced(run_traced, run_plain):
    source = """
    def f(): raise KeyError("gone")
    def g(): f()
    g()
    """
    plain = run_plain(source, status=1)
    r = run_traced(source, status=1)
    assert r.process.stderr.splitlines()[-1:] == ["KeyError: 'gone'"] or "KeyError: 'gone'" in r.process.stderr
    assert plain.stderr in r.process.stderr, "the traceback is not the program's own"
    assert r.outcomes("f") == {"RAISED": 1} and r.outcomes("g") == {"RAISED": 1}


def test_exceptions_that_cross_many_frames_close_each(run_traced):
    r = run_traced(
        """
        def thrower(n):
            if n == 0: raise LookupError
            thrower(n - 1)
        def catcher():
            try: thrower(40)
            except LookupError: after()
        def after(): pass
        for _ in range(10): catcher()
        """
    )
    assert r.outcomes("thrower") == {"RAISED": 410}
    assert r.callers("after") == {"catcher": 10}
    assert r.callers("thrower") == {"catcher": 10, "thrower": 400}


def test_finally_and_exit_handlers_run_inside_the_call_that_unwinds(run_traced):
    r = run_traced(
        """
        class Manager:
            def __enter__(self): return self
            def __exit__(self, *error): cleanup()
        def cleanup(): pass
        def body():
            try:
                with Manager(): raise OSError
            finally: cleanup()
        for _ in range(7):
            try: body()
            except OSError: pass
        """
    )
    assert r.callers("cleanup") == {"Manager.__exit__": 7, "body": 7}
    assert r.outcomes("body") == {"RAISED": 7}
    assert r.outcomes("Manager.__exit__") == {"RETURNED": 7}
