"""Every kind of call, each with its own name and the place it was called from."""

import sys

import pytest

KINDS = """
import functools
class Meta(type):
    def __call__(cls, *a): return super().__call__(*a)
class Base(metaclass=Meta):
    def __init__(self): self.x = 1
    @property
    def prop(self): return 1
    @classmethod
    def cm(cls): return 1
    @staticmethod
    def sm(): return 1
    def __add__(self, o): return 1
    def __getitem__(self, i): return 1
    def __eq__(self, o): return True
    def __hash__(self): return 1
    def __len__(self): return 1
    def __call__(self): return 1
    def __enter__(self): return self
    def __exit__(self, *a): return None
    def __iter__(self): return iter([1])
    def __bool__(self): return True
    def __getattr__(self, name): return 1
    def __repr__(self): return "r"
    def __set_name__(self, owner, name): pass
class Slots:
    __slots__ = ("x",)
    def __init__(self, x): self.x = x
class Child(Slots):
    __slots__ = ()
    def __init__(self): super().__init__(1)
class Plain:
    def __init__(self): self.x = 1
def key(x): return x
def once():
    b = Base(); b.prop; Base.cm(); Base.sm(); b + 1; b[0]; b == 1; hash(b); len(b); b()
    with b: pass
    for x in b: pass
    if b: pass
    b.missing; repr(b); Slots(1); Child(); Plain()
    sorted([1], key=key); functools.reduce(lambda x, y: x, [1, 2, 3]); exec("key(1)")
for _ in range(100): once()
"""

METHODS = ("init", "add", "getitem", "eq", "hash", "len", "call", "enter", "exit", "iter", "bool", "getattr", "repr")
WANTED = {
    **dict.fromkeys([f"Base.__{n}__" for n in METHODS], 100),
    "Base.prop": 100,
    "Base.cm": 100,
    "Base.sm": 100,
    "Meta.__call__": 100,
    "Slots.__init__": 200,
    "Child.__init__": 100,
    "Plain.__init__": 100,
    "key": 200,
    "once": 100,
    "once.<locals>.<lambda>": 200,
}


@pytest.mark.parametrize("options", [(), ("--c-calls",)], ids=["python", "c_calls"])
def test_every_kind_of_call_is_recorded_every_time(run_traced, options):
    r = run_traced(KINDS, *options)
    assert {name: r.count(name) for name in WANTED} == WANTED


def test_nothing_but_the_program_is_recorded(run_traced):
    r = run_traced("def f(): return 1\nfor _ in range(3): f()\n", "--no-gc")
    # what the interpreter itself does at its end may be there, what frametap does may not
    assert r.counts("").keys() - {"f", "<module>", "_shutdown"} == set()
    assert r.count("f") == 3


def test_a_constructor_is_called_from_the_line_that_makes_the_object(run_traced):
    r = run_traced(
        """
        class A:
            def __init__(self):
                self.x = 1
        class B(A):
            def __init__(self):
                super().__init__()
        def make():
            A()
            return B()
        for _ in range(100):
            make()
        """
    )
    # specialised or not, a site is one site
    assert r.site_callers("B.__init__") == {("make", 10): 100}
    assert r.site_callers("A.__init__") == {("make", 9): 100, ("B.__init__", 7): 100}
    assert r.callers("A.__init__") == {"make": 100, "B.__init__": 100}


def test_sites_tell_the_line_of_the_call(run_traced):
    r = run_traced(
        """
        def leaf(x=0): return x
        def caller():
            leaf()
            leaf(
                leaf()
            )
            return [leaf(i) for i in range(3)] and leaf()
        for _ in range(50): caller()
        """
    )
    lines = {}
    for (name, line), n in r.site_callers("leaf").items():
        lines[line] = lines.get(line, 0) + n
        assert name in ("caller", "caller.<locals>.<listcomp>")
    assert lines == {4: 50, 5: 50, 6: 50, 8: 200}


def test_a_method_whose_self_lives_in_a_cell_is_recorded(run_traced):
    r = run_traced(
        """
        class A:
            def __init__(self):
                self.get = lambda: self
            def method(self):
                return (lambda: self)()
        for _ in range(100): A().method()
        """
    )
    assert r.count("A.__init__") == r.count("A.method") == r.count("A.method.<locals>.<lambda>") == 100


def test_short_lived_functions_keep_their_own_names(run_traced):
    r = run_traced(
        """
        for i in range(20_000):
            exec(f"def fn_{i}(): return {i}\\nfn_{i}()", {})
        """
    )
    found = r.counts("fn_")
    assert len(found) == 20_000
    assert set(found.values()) == {1}


def test_short_lived_lambdas_keep_their_own_lines(run_traced):
    r = run_traced(
        """
        import gc
        for i in range(2000):
            f = eval(compile("\\n" * i + "lambda: 0", f"<piece {i}>", "eval")); f(); del f
        """
    )
    f = r.trace.functions
    lambdas = [(file, int(line)) for name, file, line in zip(f["name"], f["file"], f["line"]) if name == "<lambda>"]
    mine = [(file, line) for file, line in lambdas if file.startswith("<piece")]
    assert sorted(mine) == sorted((f"<piece {i}>", i + 1) for i in range(2000))


def test_names_in_any_script_survive(run_traced):
    r = run_traced(
        """
        def größe(): return 1
        class 數:
            def 方法(self): return größe()
        for _ in range(3): 數().方法()
        odd = eval("lambda: 1")
        odd.__code__ = odd.__code__.replace(co_name="\\n\\"quoted\\\\ \\U0001f600", **QUALNAME)
        odd()
        """.replace("**QUALNAME", 'co_qualname="\\n\\"quoted\\\\ \\U0001f600"')
    )
    assert r.callers("größe") == {"數.方法": 3}
    assert r.count('\n"quoted\\ \U0001f600') == 1


def test_same_named_functions_are_told_apart(run_traced):
    r = run_traced(
        """
        def make(k):
            if k:
                def same(): return 1
            else:
                def same(): return 2
            return same
        a, b = make(0), make(1)
        for _ in range(5): a()
        for _ in range(7): b()
        """
    )
    f = r.trace.functions
    functions = r.trace.sites["function"][r.trace.calls["site"][r.rows("make.<locals>.same")]]
    by_line = {}
    for row in functions:
        by_line[int(f["line"][row])] = by_line.get(int(f["line"][row]), 0) + 1
    assert by_line == {4: 7, 6: 5}


def test_modules_and_files_are_told(run_traced):
    r = run_traced("import json.decoder\njson.decoder.JSONDecoder().decode('[1]')\ndef mine(): pass\nmine()\n")
    f = r.trace.functions
    rows = {name: i for i, name in enumerate(f["name"])}
    assert f["module"][rows["JSONDecoder.decode"]] == "json.decoder"
    assert f["module"][rows["mine"]] == "__main__"
    assert f["file"][rows["mine"]].endswith("program.py") and f["line"][rows["mine"]] == 3


def test_collections_of_garbage_are_recorded_where_they_happen(run_traced):
    r = run_traced(
        """
        import gc
        class Knot:
            def __del__(self): untied()
        def untied(): pass
        def collect():
            k = Knot(); k.self = k; del k
            gc.collect()
        gc.disable()
        for _ in range(10): collect()
        """
    )
    f = r.trace.functions
    (collection,) = {name for name, kind in zip(f["name"], f["kind"], strict=True) if kind == "gc"}
    assert r.callers(collection)["collect"] == 10
    assert r.callers("Knot.__del__") == {collection: 10}
    assert r.callers("untied") == {"Knot.__del__": 10}


def test_the_recursion_of_two_functions_nests(run_traced):
    r = run_traced(
        """
        def even(n): return n == 0 or odd(n - 1)
        def odd(n): return n != 0 and even(n - 1)
        for _ in range(10): even(50)
        """
    )
    assert r.callers("even") == {"<module>": 10, "odd": 250}
    assert r.callers("odd") == {"even": 250}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="comprehensions are inlined from 3.12 on")
def test_comprehensions_are_frames_on_3_11(run_traced):
    r = run_traced("def f(): return [x for x in range(3)]\nfor _ in range(9): f()\n")
    assert r.callers("f.<locals>.<listcomp>") == {"f": 9}
