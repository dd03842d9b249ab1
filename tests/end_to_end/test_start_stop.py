"""Starting and stopping anywhere: in a callee, in a caller, in the middle of recursion, again and again."""

import sys

from frametap.table.schema import CallFlag

#: How a frame ends that ran before the start: from 3.12 on its exit is seen; 3.11's hook only learns of it later.
OLD_RETURN, OLD_YIELD = ("RETURNED", "YIELDED") if sys.version_info >= (3, 12) else ("UNFINISHED", "UNFINISHED")


def test_start_in_a_callee_stop_in_a_caller(run_api):
    r = run_api(
        """
        import sys
        import frametap
        tap = frametap.trace(sys.argv[1])
        def a(): b(); return c()
        def b(): tap.start(); return c()
        def c(): return 1
        def gen():
            c(); yield; c(); yield; c()
        g = gen(); next(g)
        def top():
            a(); next(g); c()
        top(); tap.stop()
        """
    )
    assert r.callers("c") == {"b": 1, "a": 1, "gen": 1, "top": 1}
    for name in ("a", "b", "top", "<module>"):
        assert r.flagged(name, CallFlag.BEGUN_BEFORE) == r.count(name) == 1
    assert r.outcomes("a") == r.outcomes("b") == {OLD_RETURN: 1}
    assert r.outcomes("<module>") == {"UNFINISHED": 1}
    # its first resume was before the start
    assert r.outcomes("gen") == {"YIELDED": 1}
    assert r.flagged("gen", CallFlag.FIRST_RESUME) == 0
    assert r.callers("gen") == {"top": 1}


def test_the_whole_stack_counts_at_start(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def leaf(): return 1
        def down(n):
            if n: down(n - 1)
            else: tap.start()
            leaf()
        tap = frametap.trace(sys.argv[1])
        down(700)
        tap.stop()
        """
    )
    assert r.flagged("down", CallFlag.BEGUN_BEFORE) == r.count("down") == 701
    assert r.outcomes("down") == {OLD_RETURN: 701}
    assert r.callers("leaf") == {"down": 701}
    depths = r.trace.calls["depth"][r.rows("leaf")]
    assert sorted(depths.tolist()) == sorted(set(depths.tolist())), "the leaves lie under different frames"


def test_generators_running_at_start_keep_their_outcome(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def leaf(): return 1
        def gen():
            tap.start()
            leaf()
            yield 1
            leaf()
        def use():
            for x in gen(): leaf()
        tap = frametap.trace(sys.argv[1])
        use()
        tap.stop()
        """
    )
    assert r.outcomes("gen") == {OLD_YIELD: 1, "RETURNED": 1}
    assert r.callers("leaf") == {"gen": 2, "use": 1}
    assert r.callers("gen") == {"use": 2}
    assert r.flagged("gen", CallFlag.BEGUN_BEFORE) == 1


def test_frames_that_outlive_the_recording_do_no_harm(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def leaf(): return 1
        def outer(path):
            tap = frametap.trace(path)
            tap.start()
            leaf(); inner(tap); leaf()
        def inner(tap):
            leaf(); tap.stop()
        def gen(path):
            tap = frametap.trace(path)
            tap.start(); yield; tap.stop(); yield
        for i in range(100):
            outer(f"{sys.argv[1]}.{i}")
            for _ in gen(f"{sys.argv[1]}.{i}"): leaf()
        outer(sys.argv[1])
        """
    )
    assert r.callers("leaf") == {"outer": 1, "inner": 1}
    assert r.outcomes("outer") == r.outcomes("inner") == {"UNFINISHED": 1}


def test_restarting_in_the_middle_of_frames_sees_both_parts(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def leaf(): return 1
        def nest(n):
            leaf()
            if n: nest(n - 1)
            else: turn()
            leaf()
        def turn():
            first.stop(); leaf(); second.start()
        first, second = frametap.trace(sys.argv[1] + ".first"), frametap.trace(sys.argv[1])
        first.start()
        nest(30)
        second.stop()
        import numpy
        trace = frametap.open(sys.argv[1] + ".first").trace()
        names = trace.functions["name"][trace.sites["function"][trace.calls["site"]]]
        print((names == "leaf").sum())
        """
    )
    assert r.stdout == "31\n"
    assert r.callers("leaf") == {"nest": 31}
    assert r.flagged("nest", CallFlag.BEGUN_BEFORE) == r.count("nest") == 31
    assert r.outcomes("nest") == {OLD_RETURN: 31}


def test_pausing_in_the_middle_of_frames_leaves_the_gap_out(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def seen(): return 1
        def unseen(): return 1
        def down(n):
            seen()
            if n: down(n - 1)
            seen()
        def deep(n):
            if n: return deep(n - 1)
            for _ in range(20):
                tap.pause(); unseen(); tap.resume(); seen()
        tap = frametap.trace(sys.argv[1])
        tap.start()
        deep(10); down(5)
        tap.stop()
        """
    )
    assert r.count("unseen") == 0
    assert r.callers("seen") == {"deep": 20, "down": 12}


def test_stopping_on_another_thread(run_api):
    r = run_api(
        """
        import sys, threading
        import frametap
        def leaf(): return 1
        def work():
            for _ in range(10): leaf()
            tap.stop()
            leaf()
        tap = frametap.trace(sys.argv[1])
        def main():
            tap.start()
            leaf()
            t = threading.Thread(target=work, name="stopper"); t.start(); t.join()
            leaf()
        main()
        """
    )
    assert r.callers("leaf") == {"main": 1, "work": 10}


def test_an_exception_leaves_the_block_and_the_capture(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def boom(): raise ValueError("out")
        try:
            with frametap.trace(sys.argv[1]): boom()
        except ValueError as error: print(error)
        """
    )
    assert r.stdout == "out\n"
    assert r.outcomes("boom") == {"RAISED": 1}


def test_a_program_may_be_recorded_many_times(run_api):
    r = run_api(
        """
        import sys
        import frametap
        def leaf(): return 1
        def work():
            for _ in range(100): leaf()
        for i in range(30):
            with frametap.trace(f"{sys.argv[1]}.{i}" if i < 29 else sys.argv[1]): work()
        """
    )
    assert r.callers("leaf") == {"work": 100}
