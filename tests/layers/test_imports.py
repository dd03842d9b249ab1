"""Stages depend on one another in one direction only.

record → store ← replay → table ← the outputs ← cli. The outputs never see each other.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "frametap"
CORE = ROOT / "core"

#: What each stage's Python may import, beside itself and the package's own small modules.
MAY_IMPORT = {
    "store": set(),
    "table": set(),
    "record": {"store"},
    "replay": {"store", "table"},
    "export": {"table"},
    "analyse": {"table"},
    "view": {"table"},
    "pytorch": {"table", "record"},
    "cli": {"store", "table", "record", "replay", "export", "analyse", "view", "pytorch"},
}
#: The modules that only the command line and the package itself may import: they join stages.
JOINING = {"__init__", "opened"}
#: Modules at the package's top that any stage may import; they import no stage themselves.
SHARED = {p.stem for p in PACKAGE.glob("*.py")} - JOINING - {"__main__"} | {"_core"}
#: The same for folders of core/.
MAY_INCLUDE = {"store": set(), "record": {"store"}, "replay": {"store"}}


def imported(path: Path) -> set[tuple[str, ...]]:
    """Modules of the package that a file imports anywhere in it, as paths below the package."""
    here = path.relative_to(PACKAGE).with_suffix("").parts
    package = here[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {tuple(a.name.split(".")[1:]) for a in node.names if a.name.split(".")[0] == "frametap"}
        elif isinstance(node, ast.ImportFrom):
            module = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                base = (*package[: len(package) - node.level + 1], *module)
            elif module[:1] == ("frametap",):
                base = module[1:]
            else:
                continue
            found |= {(*base, a.name) for a in node.names} if len(base) == 0 else {base}
    return found


STAGE_FILES = [p for stage in MAY_IMPORT for p in sorted((PACKAGE / stage).rglob("*.py"))]


@pytest.mark.parametrize("path", STAGE_FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_stage_imports_only_what_lies_upstream(path):
    stage = path.relative_to(PACKAGE).parts[0]
    known = {stage, *MAY_IMPORT[stage], *SHARED, *(JOINING if stage == "cli" else ())}
    wrong = {m for m in imported(path) if m and m[0] not in known}
    assert not wrong, f"{stage} may import {sorted(MAY_IMPORT[stage])}"


@pytest.mark.parametrize("name", sorted(SHARED - {"_core"}))
def test_shared_modules_import_no_stage(name):
    assert {m for m in imported(PACKAGE / f"{name}.py") if m and m[0] in MAY_IMPORT} == set()


def test_every_stage_folder_is_known():
    folders = {p.parent.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE}
    assert folders <= set(MAY_IMPORT)
    assert {p.name for p in CORE.iterdir() if p.is_dir()} <= set(MAY_INCLUDE)


CORE_FILES = sorted(p for p in CORE.rglob("*") if p.suffix in (".h", ".cpp"))


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("path", [p for p in CORE_FILES if p.parent != CORE], ids=lambda p: str(p.relative_to(CORE)))
def test_core_includes_only_what_lies_upstream(path):
    stage = path.relative_to(CORE).parts[0]
    for name in includes(path):
        top = name.split("/")[0] if "/" in name else stage
        assert top not in set(MAY_INCLUDE) - {stage, *MAY_INCLUDE[stage]}, f"{stage} includes {name}"
        assert not name.startswith("../"), f"{name}: includes are relative to core/"


def test_only_the_bindings_see_the_binding_library():
    assert {p.name for p in CORE_FILES if any(i.startswith("nanobind/") for i in includes(p))} <= {"module.cpp"}


def test_one_file_knows_the_interpreters_frames():
    internal = {p.name for p in CORE_FILES if any("internal/" in i or "pycore_" in i for i in includes(p))}
    assert internal <= {"frames.h"}


def test_no_file_is_a_dumping_ground():
    assert [p for p in [*STAGE_FILES, *CORE_FILES] if p.stem in ("utils", "util", "helpers", "misc", "common")] == []


@pytest.mark.parametrize("module", ["torch", "numpy", "rich", "pyarrow", "asyncio", "subprocess", "multiprocessing"])
def test_importing_the_package_does_not_import(module):
    code = f"import sys; before = set(sys.modules); import frametap; print({module!r} in set(sys.modules) - before)"
    out = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**__import__("os").environ, "PYTHONPATH": str(_installed_at())},
    )
    assert out.stdout == "False\n"


def _installed_at() -> Path:
    import frametap

    return Path(frametap.__file__).parents[1]


def test_the_stub_of_the_core_names_what_the_core_has():
    stub = PACKAGE / "_core.pyi"
    if not stub.exists():
        pytest.skip("no stub file")
    core = pytest.importorskip("frametap._core")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    written = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    written |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    public = {n for n in dir(core) if not n.startswith("_")}
    assert {n for n in written if not n.startswith("_")} == public
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = {n.name for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
            assert members <= set(dir(getattr(core, node.name))), node.name
