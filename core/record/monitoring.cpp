// Engine for 3.12 and later: sys.monitoring, with a tool id of our own.
//
// Callbacks are objects whose type has its own vectorcall slot: the interpreter then calls our C
// function with no argument handling in between, which is worth 10 ns a call over METH_FASTCALL.
// Nothing of ours stays on the C stack, so neither a guard nor a generation check is needed.
//
// Arguments (docs of sys.monitoring): PY_* (code, offset, …); CALL, C_RETURN, C_RAISE (code, offset,
// callable, arg0).
#include "record/frames.h"

#if PY_VERSION_HEX >= 0x030c0000

#include "record/session.h"
#include "record/tap.h"

namespace frametap {

using format::RecordKind;

namespace {

// A thread's recorder is found without asking CPython for the thread state: the end of a thread state
// clears t_recorder (or the recorder's `ts`), and `active` is false while another one is swapped in.
FT_INLINE Recorder* my_recorder() {
  Recorder* r = t_recorder;
  if (FT_UNLIKELY(!r || !r->ts || !r->ts->_status.active)) return recorder_for(current_thread_state(), nullptr);
  return r;
}

// The frame that runs; while a callback runs it is the thread's current one.
FT_INLINE Frame* frame_of(const Recorder* r) { return top_frame(r->ts); }

// The Python frame below `f`; the mirror has it on top afterwards. Frames that stand for C code, and
// those still being set up (3.13's helper around __init__), lie between.
FT_INLINE Frame* caller_of(Recorder* r, Frame* f) {
  Frame* caller = f->previous;
  if (FT_UNLIKELY(entry_of(caller) != frame_part(r->sp[-1]))) {
    caller = skip_to_caller(caller);
    expect_caller(r, caller);
  }
  return caller;
}

// None is immortal: no reference to count.
FT_INLINE PyObject* none() { return Py_None; }

FT_INLINE void enter_python(PyCodeObject* code, uintptr_t key, bool first) {
  Recorder* r = my_recorder();
  if (FT_UNLIKELY(!r)) return;
  Frame* f = frame_of(r);
  Frame* caller = caller_of(r, f);
  uintptr_t ip = (caller ? uintptr_t(frame_ip(caller)) : 0) | key;
  uint32_t id;
  if (FT_UNLIKELY(!Sites::find(ip, uintptr_t(code), id))) id = g_sites.python_site(ip, code, f, caller);
  push(r, entry_of(f));
  if (FT_UNLIKELY(id & format::kResumeBit))
    put_resume(r, now_ticks(), id, f, first);
  else
    put(r, now_ticks(), id);
}

FT_INLINE void leave_python(uint32_t how) {
  uint64_t tick = now_ticks();
  Recorder* r = my_recorder();
  if (FT_UNLIKELY(!r)) return;
  Frame* f = frame_of(r);
  if (FT_UNLIKELY(r->sp[-1] != entry_of(f)) && !repair_exit(r, f)) return;
  r->sp--;
  put(r, tick, how);
}

PyCodeObject* code_arg(PyObject* const* args) { return reinterpret_cast<PyCodeObject*>(args[0]); }

// A generator's first resume is a start; making one is no event.
PyObject* on_py_start(PyObject*, PyObject* const* args, size_t, PyObject*) {
  enter_python(code_arg(args), 0, true);
  return none();
}
PyObject* on_py_resume(PyObject*, PyObject* const* args, size_t, PyObject*) {
  enter_python(code_arg(args), kResumeKey, false);
  return none();
}
// throw() or close() on a generator. If that is the first thing that ever happens to it, nothing of it
// runs: no call.
PyObject* on_py_throw(PyObject*, PyObject* const* args, size_t, PyObject*) {
  Recorder* r = my_recorder();
  if (FT_UNLIKELY(!r)) return none();
  Frame* f = frame_of(r);
  if (never_resumed(f)) {
    caller_of(r, f);
    push(r, entry_of(f) | kQuietTag);
  } else {
    enter_python(code_arg(args), kResumeKey, false);
  }
  return none();
}
PyObject* on_py_return(PyObject*, PyObject* const*, size_t, PyObject*) {
  leave_python(format::kReturn);
  return none();
}
PyObject* on_py_yield(PyObject*, PyObject* const*, size_t, PyObject*) {
  leave_python(format::kYield);
  return none();
}
PyObject* on_py_unwind(PyObject*, PyObject* const*, size_t, PyObject*) {
  leave_python(format::kRaise);
  return none();
}

// `f(*args)` on a method of a C callable tells of the call and not of the return (3.13 to 3.15).
FT_INLINE bool returns_silently(Frame* f, PyObject* callable) {
  if (FT_LIKELY(!Py_IS_TYPE(callable, &PyMethod_Type))) return false;
  auto opcode = static_cast<unsigned char>(*frame_ip(f));
  return opcode == INSTRUMENTED_CALL_FUNCTION_EX || opcode == CALL_FUNCTION_EX;
}

PyObject* on_call(PyObject*, PyObject* const* args, size_t, PyObject*) {
  PyObject* callable = args[2];
  if (is_python_callable(callable)) return none();
  Recorder* r = my_recorder();
  if (FT_UNLIKELY(!r)) return none();
  Frame* f = frame_of(r);
  int lasti = int(PyLong_AsLong(args[1]));
  enter_c(r, f, uintptr_t(frame_ip(f)), callable, args[3], lasti);
  if (FT_UNLIKELY(returns_silently(f, callable))) close_silent_c_call(r, f);
  return none();
}
PyObject* leave_c_call(PyObject* callable, uint32_t how) {
  uint64_t tick = now_ticks();
  if (is_python_callable(callable)) return none();
  Recorder* r = my_recorder();
  if (FT_LIKELY(r)) leave_c(r, tick, frame_of(r), how);
  return none();
}
PyObject* on_c_return(PyObject*, PyObject* const* args, size_t, PyObject*) {
  return leave_c_call(args[2], format::kCReturn);
}
PyObject* on_c_raise(PyObject*, PyObject* const* args, size_t, PyObject*) {
  return leave_c_call(args[2], format::kCRaise);
}

// ---- registration -----------------------------------------------------------------------------

struct Callback {
  PyObject_HEAD
  vectorcallfunc call;
};
PyTypeObject callback_type = {PyVarObject_HEAD_INIT(nullptr, 0)};

struct Event {
  const char* name;
  vectorcallfunc call;
  bool c_calls;
};
constexpr Event kEvents[] = {
    {"PY_START", on_py_start, false}, {"PY_RESUME", on_py_resume, false},
    {"PY_THROW", on_py_throw, false}, {"PY_RETURN", on_py_return, false},
    {"PY_YIELD", on_py_yield, false}, {"PY_UNWIND", on_py_unwind, false},
    {"CALL", on_call, true},          {"C_RETURN", on_c_return, true},
    {"C_RAISE", on_c_raise, true},
};
// C_RETURN and C_RAISE come with CALL and may not be asked for in set_events by themselves.

constexpr int kToolIds[] = {4, 3, 1, 0};  // never 2, the profiler's; 5 is the optimizer's
int g_tool = -1;

PyObject* monitoring() {  // borrowed
  return PySys_GetObject("monitoring");
}

bool make_callback_type() {
  if (callback_type.tp_name) return true;
  callback_type.tp_name = "frametap._core.Callback";
  callback_type.tp_basicsize = sizeof(Callback);
  callback_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  callback_type.tp_vectorcall_offset = offsetof(Callback, call);
  callback_type.tp_call = PyVectorcall_Call;
  return PyType_Ready(&callback_type) == 0;
}

bool take_tool_id() {
  if (g_tool >= 0) return true;
  for (int id : kToolIds) {
    PyObject* rc = PyObject_CallMethod(monitoring(), "use_tool_id", "is", id, "frametap");
    if (rc) {
      Py_DECREF(rc);
      g_tool = id;
      return true;
    }
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) return false;
    PyErr_Clear();
  }
  PyErr_SetString(PyExc_RuntimeError, "all tool ids of sys.monitoring are taken; free one to trace");
  return false;
}

bool set_events(long mask) {
  PyObject* rc = PyObject_CallMethod(monitoring(), "set_events", "il", g_tool, mask);
  Py_XDECREF(rc);
  return rc != nullptr;
}

bool arm(bool c_calls) {
  if (!monitoring()) {
    PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is missing");
    return false;
  }
  if (!make_callback_type() || !take_tool_id()) return false;
  PyObject* names = PyObject_GetAttrString(monitoring(), "events");
  if (!names) return false;
  long mask = 0;
  bool good = true;
  for (const Event& e : kEvents) {
    if (e.c_calls && !c_calls) continue;
    PyObject* number = PyObject_GetAttrString(names, e.name);
    auto* callback = number ? PyObject_New(Callback, &callback_type) : nullptr;
    PyObject* previous = nullptr;
    if (callback) {
      callback->call = e.call;
      previous = PyObject_CallMethod(monitoring(), "register_callback", "iOO", g_tool, number, callback);
      mask |= PyLong_AsLong(number);
    }
    good = good && previous;
    Py_XDECREF(previous);
    Py_XDECREF(reinterpret_cast<PyObject*>(callback));
    Py_XDECREF(number);
  }
  Py_DECREF(names);
  return good && set_events(mask);
}

void disarm() {
  if (g_tool < 0) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (!set_events(0)) PyErr_Clear();
  PyObject* rc = PyObject_CallMethod(monitoring(), "free_tool_id", "i", g_tool);
  if (!rc) PyErr_Clear();
  Py_XDECREF(rc);
  g_tool = -1;
  PyErr_Restore(type, value, traceback);
}

}  // namespace

const Engine kEngine = {"monitoring", "monitoring", arm, disarm};

}  // namespace frametap

#endif
