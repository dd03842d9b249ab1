"""Greenlets: a switch parks one stack and goes on with another; nesting is right on each."""

import pytest

pytest.importorskip("greenlet")


def test_two_greenlets_that_switch_never_contain_one_another(run_traced):
    r = run_traced(
        """
        import greenlet
        def leaf(): return 1
        def a():
            leaf(); g2.switch(); leaf(); g2.switch()
        def b():
            leaf(); g1.switch(); leaf()
        g1, g2 = greenlet.greenlet(a), greenlet.greenlet(b)
        g1.switch()
        for _ in range(3): leaf()
        """
    )
    assert r.callers("leaf") == {"a": 2, "b": 2, "<module>": 3}
    calls = r.trace.calls
    for name, other in (("a", "b"), ("b", "a")):
        (row,) = r.rows(name)
        above = set()
        while calls["parent"][row] >= 0:
            row = calls["parent"][row]
            above.add(r.trace.functions["name"][r.trace.sites["function"][calls["site"][row]]])
        assert other not in above


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
def test_many_greenlets_in_turn(run_traced, options):
    r = run_traced(
        """
        import greenlet
        def leaf(): return 1
        def step(n):
            leaf()
            main.switch(n)
            leaf()
        def body(k):
            for n in range(5): step(n)
        main = greenlet.getcurrent()
        crowd = [greenlet.greenlet(body) for _ in range(20)]
        for g in crowd: g.switch(0)
        for _ in range(5):
            for g in crowd: g.switch()
        """,
        *options,
    )
    assert r.callers("step") == {"body": 100}
    assert r.callers("leaf") == {"step": 200}
    assert r.outcomes("body") == {"RETURNED": 20}
    assert r.outcomes("step") == {"RETURNED": 100}


def test_greenlets_left_suspended_and_killed(run_traced):
    r = run_traced(
        """
        import gc, greenlet
        def leaf(): return 1
        def body():
            try:
                leaf(); main.switch(); leaf()
            finally: leaf()
        main = greenlet.getcurrent()
        def leave():
            g = greenlet.greenlet(body); g.switch()
        def kill():
            g = greenlet.greenlet(body); g.switch(); g.throw()
        kept = greenlet.greenlet(body); kept.switch()
        for _ in range(10): leave(); kill()
        leaf()
        """
    )
    assert r.callers("leaf")["<module>"] == 1
    assert r.callers("leaf")["body"] >= 41
    assert set(r.callers("leaf")) == {"<module>", "body"}


def test_greenlets_on_several_threads(run_traced):
    r = run_traced(
        """
        import greenlet, threading
        def leaf(): return 1
        def work():
            here = greenlet.getcurrent()
            def body():
                for _ in range(10): leaf(); here.switch()
            some = [greenlet.greenlet(body) for _ in range(3)]
            for _ in range(10):
                for g in some: g.switch()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        """
    )
    assert r.callers("leaf") == {"work.<locals>.body": 90}
    assert r.outcomes("work") == {"RETURNED": 3}
