#include "record/set_profile.h"

#if PY_VERSION_HEX < 0x030c0000

#include "record/tap.h"

namespace frametap {

using format::LossKind;

namespace {

// The C calls of one thread go missing while another profiler has its place; counted once a time.
__thread bool t_displaced = false;

}  // namespace

int on_profile_event(PyObject*, PyFrameObject* frame_object, int what, PyObject* arg) {
  uint64_t tick = now_ticks();
  if (what != PyTrace_C_CALL && what != PyTrace_C_RETURN && what != PyTrace_C_EXCEPTION) return 0;
  if (FT_UNLIKELY(!(g_generation & 1)) || FT_UNLIKELY(g_deep_gap)) return 0;
  PyThreadState* ts = _PyThreadState_UncheckedGet();
  Recorder* r = t_recorder;
  if (FT_UNLIKELY(!r || r->ts != ts)) {
    r = recorder_for(ts, nullptr);
    if (!r) return 0;
  }
  Frame* f = frame_object->f_frame;
  if (what == PyTrace_C_CALL) {
    uintptr_t ip = uintptr_t(frame_ip(f));
    enter_c(r, f, ip, arg, nullptr, frame_lasti_bytes(f, frame_code(f)));
  } else {
    leave_c(r, tick, f, what == PyTrace_C_RETURN ? format::kCReturn : format::kCRaise);
  }
  return 0;
}

bool profile_c_calls_on_all_threads() {
  PyThreadState* self = PyThreadState_Get();
  for (PyThreadState* ts = PyInterpreterState_ThreadHead(self->interp); ts; ts = PyThreadState_Next(ts))
    if (!ts->c_profilefunc && _PyEval_SetProfile(ts, on_profile_event, nullptr) < 0) return false;
  return true;
}

void stop_profiling_c_calls() {
  PyThreadState* self = PyThreadState_Get();
  for (PyThreadState* ts = PyInterpreterState_ThreadHead(self->interp); ts; ts = PyThreadState_Next(ts))
    if (ts->c_profilefunc == on_profile_event && _PyEval_SetProfile(ts, nullptr, nullptr) < 0) PyErr_Clear();
}

void reclaim_profile_function(PyThreadState* ts) {
  if (!ts->c_profilefunc && !ts->tracing) {
    if (_PyEval_SetProfile(ts, on_profile_event, nullptr) < 0) PyErr_Clear();
    t_displaced = false;
  } else if (!t_displaced) {
    t_displaced = true;
    g_events.count_loss(LossKind::kCCallsDisplaced);
  }
}

}  // namespace frametap

#endif
