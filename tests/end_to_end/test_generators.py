"""Generators, coroutines, async generators: every resume is a span, with its outcome and instance."""

import numpy as np

from frametap.table.schema import CallFlag, Outcome

DELEGATING = """
def leaf(): return 1
def inner():
    try:
        yield leaf(); yield leaf(); yield leaf()
    finally:
        leaf()
def outer():
    yield from inner()
def closed():
    g = outer(); next(g); g.close()
def collected():
    g = outer(); next(g); del g
def thrown():
    g = outer(); next(g)
    try: g.throw(KeyError)
    except KeyError: pass
def sent():
    g = outer(); next(g); g.send(None)
def exhausted():
    for x in outer(): pass
for _ in range(20):
    closed(); collected(); thrown(); sent(); exhausted()
"""


def test_resumes_of_delegating_generators_are_all_there(run_traced):
    r = run_traced(DELEGATING)
    # closed 1 yield, collected 1, thrown 1, sent 2, exhausted 3; each ends once
    assert r.outcomes("inner") == {"YIELDED": 160, "RAISED": 80, "RETURNED": 20}
    assert r.count("leaf") == 260
    assert r.callers("leaf") == {"inner": 260}
    ended = r.outcomes("outer")
    assert (ended["YIELDED"], ended["RETURNED"]) == (160, 20)
    # 3.13 and later may finish a suspended generator without running it: then there is no span to see
    assert 20 <= ended["RAISED"] <= 80
    assert "UNFINISHED" not in ended


def test_resumes_of_one_generator_share_its_instance(run_traced):
    r = run_traced(
        """
        def count(n):
            try:
                for i in range(n): yield i
            finally: pass
        pairs = [(count(3), count(3)) for _ in range(10)]
        for a, b in pairs:
            for x in a: next(b)
            next(b, None)
        """
    )
    rows = r.rows("count")
    instances, resumes = np.unique(r.trace.calls["instance"][rows], return_counts=True)
    assert len(instances) == 20 and set(resumes.tolist()) == {4} and 0 not in instances
    assert r.flagged("count", CallFlag.FIRST_RESUME) == 20
    assert r.flagged("count", CallFlag.RESUME) == 80
    for instance in instances:
        of_one = rows[r.trace.calls["instance"][rows] == instance]
        flags = r.trace.calls["flags"][of_one] & CallFlag.FIRST_RESUME
        assert flags[0] and not flags[1:].any()


def test_a_new_generator_at_an_old_address_is_another_instance(run_traced):
    r = run_traced(
        """
        def one(): yield 1
        for _ in range(500): list(one())
        """
    )
    assert r.count("one") == 1000
    assert len(np.unique(r.trace.calls["instance"][r.rows("one")])) == 500


def test_making_a_generator_is_not_a_call_of_it(run_traced):
    r = run_traced(
        """
        import asyncio, sys
        def gen(): yield 1
        async def coro(): pass
        async def agen(): yield 1
        for _ in range(30):
            gen(); coro().close(); agen()
        """
    )
    for name in ("gen", "coro", "agen"):
        # up to 3.11 closing one that never ran enters its frame, with the exception that ends it
        assert r.outcomes(name) in ({}, {"RAISED": 30})


def test_a_suspended_generator_left_alone_leaves_nothing_open(run_traced):
    r = run_traced(
        """
        kept = []
        def simple():
            yield 1; yield 2
        def start():
            g = simple(); next(g); kept.append(g)
        for _ in range(50): start()
        """
    )
    assert r.outcomes("simple")["YIELDED"] == 50
    assert "UNFINISHED" not in r.outcomes("simple")
    assert r.outcomes("start") == {"RETURNED": 50}


def test_generators_begun_in_one_function_and_resumed_in_another_lie_under_the_resumer(run_traced):
    r = run_traced(
        """
        def gen():
            while True: yield
        def first(g): next(g)
        def second(g): next(g); next(g)
        g = gen(); first(g); second(g)
        """
    )
    assert r.callers("gen")["first"] == 1
    assert r.callers("gen")["second"] == 2


def test_coroutines_and_tasks(run_traced):
    r = run_traced(
        """
        import asyncio
        def leaf(): return 1
        async def co(n):
            await asyncio.sleep(0); leaf(); return n
        async def ag():
            for i in range(3):
                yield i
                await asyncio.sleep(0)
        async def forever():
            await asyncio.get_running_loop().create_future()
        async def main():
            tasks = [asyncio.create_task(co(i)) for i in range(3)]
            seen = [x async for x in ag()]
            assert seen == [0, 1, 2]
            assert await asyncio.gather(*tasks) == [0, 1, 2]
            t = asyncio.create_task(forever()); await asyncio.sleep(0); t.cancel()
            try: await t
            except asyncio.CancelledError: return
        asyncio.run(main())
        """
    )
    assert r.outcomes("co") == {"YIELDED": 3, "RETURNED": 3}
    assert r.outcomes("forever") == {"YIELDED": 1, "RAISED": 1}
    # an async generator's three values, three waits, and its end
    assert r.outcomes("ag") == {"YIELDED": 6, "RETURNED": 1}
    assert r.callers("leaf") == {"co": 3}
    assert r.outcomes("main")["RETURNED"] == 1
    assert r.flagged("main", CallFlag.FIRST_RESUME) == 1


def test_an_async_generator_that_is_closed_early_runs_its_cleanup(run_traced):
    r = run_traced(
        """
        import asyncio
        def cleanup(): pass
        async def ag():
            try:
                for i in range(9): yield i
            finally:
                await asyncio.sleep(0)
                cleanup()
        async def main():
            g = ag()
            async for x in g:
                if x == 1: break
            await g.aclose()
        asyncio.run(main())
        """
    )
    assert r.callers("cleanup") == {"ag": 1}
    ended = r.outcomes("ag")
    assert ended == {"YIELDED": 3, "RAISED": 1}


def test_recursive_generators_nest(run_traced):
    r = run_traced(
        """
        def walk(n):
            if n:
                yield from walk(n - 1)
                yield n
                yield from walk(n - 1)
        print(sum(walk(6)))
        """
    )
    assert r.stdout == "120\n"
    # resumes by level: each value at depth d is passed through d + 1 frames; every instance ends once
    values = sum(2 ** (6 - n) * (6 - n + 1) for n in range(1, 7))
    ended = r.outcomes("walk")
    assert ended["YIELDED"] == values
    assert ended["RETURNED"] == 2**7 - 1


def test_outcome_is_told_apart_in_one_function(run_traced):
    r = run_traced(
        """
        def gen(end):
            yield 1
            if end == "raise": raise ValueError
        def use(end):
            try: list(gen(end))
            except ValueError: pass
        for end in ("raise", "return") * 5: use(end)
        """
    )
    assert r.outcomes("gen") == {"YIELDED": 10, "RAISED": 5, "RETURNED": 5}
    by_instance = {}
    for row in r.rows("gen"):
        by_instance.setdefault(r.trace.calls["instance"][row], []).append(Outcome(r.trace.calls["outcome"][row]).name)
    assert sorted(map(tuple, by_instance.values())) == [("YIELDED", "RAISED")] * 5 + [("YIELDED", "RETURNED")] * 5
