"""Threads: each life has a track and a name of its own, whenever and however it was started."""

import sys

from frametap.table.schema import CallFlag


def test_many_short_threads_are_as_many_tracks(run_traced):
    r = run_traced(
        """
        import threading
        def work():
            for _ in range(50): len("x"); sub()
        def sub(): return sum([1, 2])
        workers = [threading.Thread(target=work, name=f"w{i}") for i in range(4)]
        for t in workers: t.start()
        for t in workers: t.join()
        for i in range(300):  # one after the other: the system gives their numbers again
            t = threading.Thread(target=sub, name=f"s{i}"); t.start(); t.join()
        """
    )
    by_name = r.thread_names("sub")
    assert by_name == {f"w{i}": 50 for i in range(4)} | {f"s{i}": 1 for i in range(300)}
    assert len(r.tracks("sub")) == 304
    assert len({int(t) for t in r.trace.threads["life"]}) == r.trace.threads.n_rows


def test_threads_running_before_the_start_are_recorded_from_then_on(run_api):
    r = run_api(
        """
        import sys, threading
        import frametap
        go = threading.Event()
        def leaf_before(): return 1
        def leaf_inside(): return 2
        def before():
            go.wait()
            for _ in range(20): leaf_before()
        def inside():
            for _ in range(20): leaf_inside()
        early = threading.Thread(target=before, name="early"); early.start()
        with frametap.trace(sys.argv[1]):
            late = threading.Thread(target=inside, name="late"); late.start()
            go.set(); early.join(); late.join()
        """
    )
    assert r.thread_names("leaf_before") == {"early": 20}
    assert r.thread_names("leaf_inside") == {"late": 20}
    assert r.callers("leaf_before") == {"before": 20}
    assert r.flagged("before", CallFlag.BEGUN_BEFORE) == 1
    assert r.flagged("inside", CallFlag.BEGUN_BEFORE) == 0
    # from 3.12 on its exit is seen; 3.11's hook would learn of it at the thread's next call, and there is none
    assert r.outcomes("before") == {"RETURNED" if sys.version_info >= (3, 12) else "UNFINISHED": 1}


BUSY = """
import sys, threading
import frametap
stop = threading.Event()
def leaf(): return 1
def middle(n):
    leaf()
    if n: middle(n - 1)
    leaf()
def generator():
    leaf(); yield; leaf()
def loop():
    while not stop.is_set():
        middle(5)
        for _ in generator(): pass
threads = [threading.Thread(target=loop, name=f"busy{i}") for i in range(3)]
sys.setswitchinterval(1e-5)
for t in threads: t.start()
"""


def test_starting_while_threads_are_deep_in_calls_mixes_nothing_up(run_api):
    r = run_api(
        BUSY
        + """
def busy():
    for _ in range(3000): leaf()
for i in range(20):
    with frametap.trace(sys.argv[1] if i == 19 else sys.argv[1] + f".{i}"): busy()
stop.set()
for t in threads: t.join()
"""
    )
    assert set(r.callers("middle")) <= {"loop", "middle"}
    assert set(r.callers("leaf")) <= {"middle", "generator", "busy"}
    assert r.callers("leaf")["busy"] == 3000
    assert set(r.callers("generator")) <= {"loop"}
    assert max(r.trace.calls["depth"][r.rows("leaf")]) <= 12


def test_pausing_while_threads_run_mixes_nothing_up(run_api):
    r = run_api(
        BUSY
        + """
def busy():
    for _ in range(300): leaf()
tap = frametap.trace(sys.argv[1])
tap.start()
for _ in range(50):
    busy(); tap.pause(); busy(); tap.resume()
tap.stop()
stop.set()
for t in threads: t.join()
"""
    )
    assert r.callers("leaf")["busy"] == 50 * 300
    assert set(r.callers("leaf")) <= {"middle", "generator", "busy"}
    assert set(r.callers("middle")) <= {"loop", "middle"}


def test_daemon_threads_at_exit_do_no_harm(run_traced):
    r = run_traced(
        """
        import threading
        ready = threading.Barrier(7)
        def leaf(): return 1
        def spin():
            for _ in range(100): leaf()
            ready.wait()
            while True: leaf()
        def sleep():
            ready.wait()
            threading.Event().wait()
        for i in range(4): threading.Thread(target=spin, daemon=True, name=f"spin{i}").start()
        for i in range(2): threading.Thread(target=sleep, daemon=True, name=f"sleep{i}").start()
        ready.wait()
        """
    )
    assert r.process.stderr.count("Error") == 0
    by_name = r.thread_names("leaf")
    assert set(by_name) == {f"spin{i}" for i in range(4)} and min(by_name.values()) >= 100
    assert r.callers("leaf") == {"spin": r.count("leaf")}
    assert r.outcomes("sleep") == {"UNFINISHED": 2}


def test_native_threads_that_enter_python_are_recorded(run_traced):
    r = run_traced(
        """
        import ctypes
        libc = ctypes.CDLL(None)
        def leaf(): return 1
        def native(argument):
            for _ in range(5): leaf()
            return 0
        entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(native)
        for _ in range(20):
            thread = ctypes.c_ulong()
            assert libc.pthread_create(ctypes.byref(thread), None, entry, None) == 0
            libc.pthread_join(thread, None)
        """
    )
    assert r.count("native") == 20
    assert r.callers("leaf") == {"native": 100}


def test_a_thread_renamed_while_it_runs_shows_its_last_name(run_traced):
    r = run_traced(
        """
        import threading
        def work():
            threading.current_thread().name = "renamed"
        t = threading.Thread(target=work, name="first"); t.start(); t.join()
        """
    )
    assert r.thread_names("work") == {"renamed": 1}


def test_two_thousand_threads(run_traced):
    r = run_traced(
        """
        import threading
        def leaf(): return 1
        for _ in range(40):
            some = [threading.Thread(target=leaf) for _ in range(50)]
            for t in some: t.start()
            for t in some: t.join()
        """
    )
    assert r.count("leaf") == 2000
    assert len(r.tracks("leaf")) == 2000
