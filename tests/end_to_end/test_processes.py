"""fork, signals, sub-interpreters, and ways to end: nothing is recorded twice, nothing is changed."""

import sys

import pytest

from frametap.table.schema import CallFlag


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
def test_a_forked_child_neither_crashes_nor_repeats_its_parent(run_traced, options):
    r = run_traced(
        """
        import os
        def before(): return 1
        def child(): return 1
        def after(): return 1
        def work():
            for _ in range(10): before()
            for status in (0, 7):
                pid = os.fork()
                if pid == 0:
                    for _ in range(1000): child()
                    os._exit(status)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
                for _ in range(10): after()
        work()
        """,
        *options,
        losses=["forked"],
    )
    assert (r.count("before"), r.count("after"), r.count("work")) == (10, 20, 1)
    # either the children are recorded in full, or the loss is told
    assert r.count("child") == 2000 or r.losses()["forked"] == 2


def test_a_forked_child_may_end_as_python_does(run_traced):
    r = run_traced(
        """
        import os, sys
        def before(): return 1
        for _ in range(5): before()
        pid = os.fork()
        if pid == 0:
            before()
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        for _ in range(5): before()
        """,
        losses=["forked"],
    )
    assert r.stdout == "3\n"
    assert r.count("before") in (10, 11)


def test_fork_while_threads_run(run_traced):
    r = run_traced(
        """
        import os, threading
        stop = threading.Event()
        def leaf(): return 1
        def spin():
            while not stop.is_set(): leaf()
        def child():
            for _ in range(100): leaf()
        threads = [threading.Thread(target=spin) for _ in range(2)]
        for t in threads: t.start()
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                child(); os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for t in threads: t.join()
        """,
        losses=["forked"],
    )
    assert set(r.callers("leaf")) <= {"spin", "child"}
    assert r.outcomes("spin")["RETURNED"] == 2


SUBINTERPRETER = """
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
def mine(): return 1
for _ in range(3):
    i = interpreters.create()
    for _ in range(4): mine()
    interpreters.run_string(i, "def theirs(): return 1\\nfor _ in range(10): theirs()")
    interpreters.destroy(i)
    for _ in range(4): mine()
print("done")
"""


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
def test_sub_interpreters_do_no_harm(run_traced, options):
    r = run_traced(SUBINTERPRETER, *options, losses=["other_interpreter"])
    assert r.stdout == "done\n"
    assert r.callers("mine") == {"<module>": 24}


def test_signal_handlers_nest_in_what_they_interrupt(run_traced):
    r = run_traced(
        """
        import signal
        def inner(): return 1
        def handler(number, frame): inner()
        def interrupted():
            signal.raise_signal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, handler)
        for _ in range(50): interrupted()
        """
    )
    assert r.callers("handler") == {"interrupted": 50}
    assert r.callers("inner") == {"handler": 50}


def test_an_interval_timer_nests_wherever_it_strikes(run_traced):
    r = run_traced(
        """
        import signal
        struck = 0
        def leaf(): return 1
        def handler(number, frame):
            global struck
            struck += 1
            leaf()
        def busy():
            while struck < 100: middle()
        def middle(): leaf()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
        busy()
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(struck)
        """
    )
    assert r.count("handler") == int(r.stdout)
    assert set(r.callers("leaf")) == {"handler", "middle"}
    # (a handler may be interrupted by the next one)
    assert set(r.callers("handler")) <= {"busy", "middle", "leaf", "handler", "<module>"}


def test_signals_that_raise_unwind(run_traced):
    r = run_traced(
        """
        import os, signal
        def handler(number, frame): raise InterruptedError
        def deep(n):
            if n: deep(n - 1)
            else: signal.raise_signal(signal.SIGUSR1)
        def catch():
            try: deep(20)
            except InterruptedError: pass
        signal.signal(signal.SIGUSR1, handler)
        for _ in range(10): catch()
        """
    )
    assert r.outcomes("deep") == {"RAISED": 210}
    assert r.outcomes("handler") == {"RAISED": 10}
    assert r.outcomes("catch") == {"RETURNED": 10}


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('told')", 1),
        ("raise SystemExit", 0),
        ("1 / 0", 1),
        (
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); signal.raise_signal(signal.SIGINT)",
            -2,
        ),
    ],
)
def test_the_exit_status_is_the_programs(run_traced, run_plain, ending, status):
    source = "def f(): return 1\nfor _ in range(1000): f()\n" + ending + "\n"
    plain = run_plain(source, status=status)
    r = run_traced(source, status=status)
    assert r.count("f") == 1000
    assert plain.stderr in r.process.stderr
    assert r.stdout == plain.stdout


def test_calls_after_the_main_program_are_recorded(run_traced):
    r = run_traced(
        """
        import atexit, threading
        def late(): return 1
        def at_exit(): late()
        class Lasting:
            def __del__(self): pass
        kept = Lasting()
        gate = threading.Event()
        def lingering():
            gate.wait(); late()
        threading.Thread(target=lingering).start()
        atexit.register(at_exit)
        gate.set()
        """
    )
    assert r.callers("late") == {"lingering": 1, "at_exit": 1}
    assert r.flagged("at_exit", CallFlag.BEGUN_BEFORE) == 0


def test_standard_streams_and_arguments_are_the_programs(run_traced):
    r = run_traced(
        "import sys\nprint(sys.argv[1:], __name__, sys.path[0] == __file__.rpartition('/')[0])\nprint('e', file=sys.stderr)\n",
        arguments=["-o", "--x", "a b"],
    )
    assert r.stdout == "['-o', '--x', 'a b'] __main__ True\n"
    assert "e\n" in r.process.stderr


if sys.platform == "win32":
    pytestmark = pytest.mark.skip(reason="POSIX processes")
