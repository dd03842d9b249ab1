"""A tap's life: one at a time, from any thread, and nothing recorded is ever overwritten or lost."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest

import frametap
from frametap import CaptureError, StateError, UnsupportedError


def test_block_is_recorded_into_a_capture_that_opens(core, tmp_path) -> None:
    with frametap.trace(tmp_path / "x.ftap", c_calls=True, gc=False) as tap:
        spool = json.loads((tmp_path / "x.ftap.part" / "spool.json").read_text())
        process = json.loads((core.folder / "process.json").read_text())
    assert core.calls == [("start", "auto", True, False), ("stop",)]
    assert tap.path == tmp_path / "x.ftap"
    assert spool["output"] == str(tap.path)
    assert spool["root_pid"] == process["pid"] == os.getpid()
    assert spool["options"] == process["options"] == tap.options.to_dict()
    assert not (tmp_path / "x.ftap.part").exists()
    with frametap.open(tap.path) as capture:
        assert capture.trace().n_calls == 1
        assert capture.capture.processes[0].info["engine"] == "monitoring"  # the one used, not "auto"


def test_second_recording_is_refused_and_says_which_runs(core, tmp_path) -> None:
    with frametap.trace(tmp_path / "one.ftap"), pytest.raises(StateError, match=r"one\.ftap"):
        frametap.trace(tmp_path / "two.ftap").start()
    assert not (tmp_path / "two.ftap.part").exists()
    with frametap.trace(tmp_path / "two.ftap"):
        pass


@pytest.mark.parametrize("method", ["stop", "pause", "resume"])
def test_what_needs_a_recording_is_refused_without_one(core, tmp_path, method) -> None:
    tap = frametap.trace(tmp_path / "x.ftap")
    with pytest.raises(StateError, match=f"cannot {method}"):
        getattr(tap, method)()
    tap.start().stop()
    with pytest.raises(StateError, match=f"cannot {method}"):
        getattr(tap, method)()


def test_any_thread_may_stop(core, tmp_path) -> None:
    tap = frametap.trace(tmp_path / "x.ftap").start()
    thread = threading.Thread(target=tap.stop)
    thread.start()
    thread.join()
    assert tap.path.exists()


def test_block_may_stop_its_tap_itself(core, tmp_path, names) -> None:
    with frametap.trace(tmp_path / "x.ftap") as tap:
        tap.stop()
    assert names() == ["start", "stop"]


def test_same_run_never_overwrites_its_own_capture(core, tmp_path) -> None:
    tap = frametap.trace(tmp_path / "x.ftap")
    paths = [tap.start().stop().name for _ in range(3)]
    assert paths == ["x.ftap", "x.2.ftap", "x.3.ftap"]
    assert all((tmp_path / name).exists() for name in paths)


def test_capture_of_an_earlier_run_is_replaced(core, tmp_path) -> None:
    (tmp_path / "x.ftap").write_text("an earlier run's")
    with frametap.trace(tmp_path / "x.ftap") as tap:
        assert (tmp_path / "x.ftap").read_text() == "an earlier run's"  # until the new one is complete
    with frametap.open(tap.path) as capture:
        assert capture.trace().n_calls == 1


def test_folder_of_another_or_killed_recording_is_left_alone(core, tmp_path) -> None:
    left = tmp_path / "x.ftap.part"
    left.mkdir()
    (left / "spool.json").write_text("precious")
    with frametap.trace(tmp_path / "x.ftap") as tap:
        pass
    assert tap.path.name == "x.2.ftap"
    assert (left / "spool.json").read_text() == "precious"


@pytest.mark.parametrize("output", ["nowhere/x.ftap", "file/x.ftap", "folder"])
def test_output_that_cannot_be_written_is_refused_at_start(core, tmp_path, output) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CaptureError, match="output") as caught:
        frametap.trace(tmp_path / output).start()
    assert caught.value.path == str(tmp_path / output)
    assert core.calls == []


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(RuntimeError("engine"), UnsupportedError), (OSError(28, "No space"), CaptureError), (KeyError(1), KeyError)],
)
def test_failed_start_leaves_nothing_behind(core, tmp_path, raised, expected) -> None:
    core.start_error = raised
    with pytest.raises(expected):
        frametap.trace(tmp_path / "x.ftap").start()
    assert list(tmp_path.iterdir()) == []
    core.start_error = None
    with frametap.trace(tmp_path / "x.ftap"):
        pass


def test_failed_packing_keeps_the_recording_and_says_how_to_get_it(core, tmp_path, monkeypatch) -> None:
    def disk_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    tap = frametap.trace(tmp_path / "x.ftap").start()
    with monkeypatch.context() as patch:
        patch.setattr("frametap.store.pack", disk_full)
        with pytest.raises(CaptureError, match=r"No space left.*frametap recover .*x\.ftap\.part"):
            tap.stop()
    from frametap.store import recover

    assert recover(tmp_path / "x.ftap.part") == tmp_path / "x.ftap"


def test_programs_exception_comes_before_a_failed_packing(core, tmp_path, monkeypatch) -> None:
    def disk_full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("frametap.store.pack", disk_full)
    with pytest.raises(ZeroDivisionError) as caught, frametap.trace(tmp_path / "x.ftap"):
        1 / 0  # noqa: B018
    assert "frametap recover" in caught.value.__notes__[0]


def test_annotations_reach_the_core_only_while_recording(core, tmp_path) -> None:
    def annotate(where: object) -> None:
        with where.span("s"):
            where.mark("m")
            where.counter("c", 1.5)

    tap = frametap.trace(tmp_path / "x.ftap")
    annotate(tap)
    annotate(frametap)
    assert core.calls == []
    with tap:
        annotate(tap)
        annotate(frametap)
    annotate(tap)
    annotate(frametap)
    expected = [("Span", "s"), ("instant", "m"), ("counter", "c", 1.5)]
    assert core.calls[1:-1] == expected * 2


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # other tests may have left threads
def test_forked_child_does_not_write_its_parents_capture(core, tmp_path) -> None:
    tap = frametap.trace(tmp_path / "x.ftap").start()
    pid = os.fork()
    if pid == 0:
        try:
            tap.stop()
            os._exit(0 if (tmp_path / "x.ftap.part").exists() and not tap.path.exists() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    tap.stop()
    assert tap.path.exists()


def test_function_is_recorded_by_decoration(core, tmp_path, names) -> None:
    @frametap.trace(tmp_path / "x.ftap")
    def factorial(n: int) -> int:
        """Docs."""
        return 1 if n < 2 else n * factorial(n - 1)

    assert (factorial(5), factorial.__name__, factorial.__doc__) == (120, "factorial", "Docs.")
    assert names() == ["start", "stop"]  # a call inside the recorded one belongs to it


def test_coroutine_function_is_recorded_while_awaited(core, tmp_path, names) -> None:
    seen = []

    @frametap.trace(tmp_path / "x.ftap")
    async def work(x: int) -> int:
        await asyncio.sleep(0)
        seen.extend(names())
        return x

    coroutine = work(3)
    assert names() == []
    assert asyncio.run(coroutine) == 3
    assert seen == ["start"]
    assert names() == ["start", "stop"]


def test_generator_function_is_recorded_from_first_step_to_end(core, tmp_path, names) -> None:
    @frametap.trace(tmp_path / "x.ftap")
    def numbers():
        got = yield 1
        yield got
        return 3

    generator = numbers()
    assert names() == []
    assert (next(generator), generator.send(2)) == (1, 2)
    assert names() == ["start"]
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    assert stopped.value.value == 3
    assert names() == ["start", "stop"]


def test_what_cannot_be_decorated_is_refused(core, tmp_path) -> None:
    async def asynchronous_generator():
        yield 1

    for thing in (asynchronous_generator, int, 3):
        with pytest.raises(TypeError, match="decorates"):
            frametap.trace(tmp_path / "x.ftap")(thing)


def test_default_output_is_named_after_the_program(core, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for argv, name in ((["/x/tool.py"], "tool.ftap"), (["-c"], "frametap.ftap"), ([], "frametap.ftap")):
        monkeypatch.setattr("sys.argv", argv)
        assert frametap.trace().path == Path(tmp_path / name)
