// Engine for 3.11: a frame-evaluation function (PEP 523).
//
// Every Python call goes through `hook`, which records the entry, lets the previous function evaluate
// the frame, and records the exit. Three rules keep the program safe:
// - no `noexcept`, no destructor across the nested evaluation: a daemon thread that ends at exit is
//   unwound through here;
// - calls that would have been inlined now use C stack: when it runs short, the hook steps aside for
//   the nested call (a counted gap) and is put back after it;
// - an exit whose entry belongs to an earlier recording is recognised by the generation.
#include "record/frames.h"

#if PY_VERSION_HEX < 0x030c0000

#include "record/session.h"
#include "record/set_profile.h"
#include "record/tap.h"

namespace frametap {

using format::LossKind;
using format::RecordKind;

namespace {

_PyFrameEvalFunction g_previous = nullptr;  // what evaluates frames below us; never null while linked
bool g_linked = false;                      // we are in the chain, on top or below somebody
bool g_c_calls = false;

PyObject* hook(PyThreadState* ts, Frame* frame, int throwing);

// Below this depth there is no room for more hooked calls: this call and all it makes go unrecorded.
FT_COLD PyObject* evaluate_unhooked(Recorder* r, uint64_t generation, PyThreadState* ts, Frame* frame, int throwing) {
  g_events.count_loss(LossKind::kDeepStack);
  // C calls would be seen still, without the frames that make them.
  const bool outermost_gap = !g_deep_gap;
  g_deep_gap = true;
  write_record(r, now_ticks(), RecordKind::kGapBegin, uint64_t(LossKind::kDeepStack));
  bool on_top = _PyInterpreterState_GetEvalFrameFunc(ts->interp) == hook;
  if (on_top) _PyInterpreterState_SetEvalFrameFunc(ts->interp, g_previous);
  PyObject* result = g_previous(ts, frame, throwing);
  if (outermost_gap) g_deep_gap = false;
  if (g_generation != generation) return result;
  if (on_top && _PyInterpreterState_GetEvalFrameFunc(ts->interp) == g_previous)
    _PyInterpreterState_SetEvalFrameFunc(ts->interp, hook);
  write_record(r, now_ticks(), RecordKind::kGapEnd, uint64_t(LossKind::kDeepStack));
  return result;
}

PyObject* hook(PyThreadState* ts, Frame* frame, int throwing) {
  const uint64_t generation = g_generation;
  Recorder* r = t_recorder;
  if (FT_UNLIKELY(!(generation & 1))) return g_previous(ts, frame, throwing);
  if (FT_UNLIKELY(!r || r->ts != ts)) {
    r = recorder_for(ts, frame);
    if (!r) return g_previous(ts, frame, throwing);
  }
  if (FT_UNLIKELY(g_c_calls) && FT_UNLIKELY(ts->c_profilefunc != on_profile_event)) reclaim_profile_function(ts);

  Frame* caller = top_frame(ts);
  expect_caller(r, caller);
  const uintptr_t code = uintptr_t(frame_code(frame));
  const bool resume = owned_by_generator(frame);
  const uintptr_t ip = (caller ? uintptr_t(frame_ip(caller)) : 0) | uintptr_t(resume);
  uint32_t id;
  if (FT_UNLIKELY(!g_sites.find(ip, code, id))) id = g_sites.python_site(ip, frame_code(frame), frame, caller);
  char here;
  if (FT_UNLIKELY(&here < r->stack_limit)) return evaluate_unhooked(r, generation, ts, frame, throwing);
  // At the recursion limit the evaluation fails before the frame runs: no call. (Not so while a
  // RecursionError is being made: then there is headroom.)
  if (FT_UNLIKELY(ts->recursion_remaining <= 0) && !ts->recursion_headroom) return g_previous(ts, frame, throwing);

  push(r, entry_of(frame));
  if (FT_UNLIKELY(id == kSkipSite) || FT_UNLIKELY(resume && throwing && never_resumed(frame))) {
    PyObject* result = g_previous(ts, frame, throwing);
    if (g_generation == generation && r->sp[-1] == entry_of(frame)) r->sp--;
    return result;
  }
  if (FT_UNLIKELY(id & format::kResumeBit))
    put_resume(r, now_ticks(), id, frame, never_resumed(frame));
  else
    put(r, now_ticks(), id);

  PyObject* result = g_previous(ts, frame, throwing);

  const uint64_t tick = now_ticks();
  if (FT_UNLIKELY(g_generation != generation)) return result;
  if (FT_UNLIKELY(r->sp[-1] != entry_of(frame)) && !repair_exit(r, frame)) return result;
  r->sp--;
  uint32_t how = result ? format::kReturn : format::kRaise;
  // A generator that yields is alive: whoever resumed it holds it.
  if (FT_UNLIKELY(resume) && result && is_suspended(generator_of(frame))) how = format::kYield;
  put(r, tick, how);
  return result;
}

bool arm(bool c_calls) {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (!g_linked && current != hook) g_previous = current;
  // Linked below somebody who took our place and will put us back: chaining again would recurse.
  if (!g_linked) _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
  g_linked = true;
  g_c_calls = c_calls;
  return !c_calls || profile_c_calls_on_all_threads();
}

void disarm() {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  if (g_c_calls) stop_profiling_c_calls();
  g_c_calls = false;
  if (!g_linked) return;
  _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  if (current == hook) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, g_previous);
    g_linked = false;
  } else {
    g_events.count_loss(LossKind::kHookDisplaced);
    // If nobody evaluates frames specially we were thrown out; else we may still be called: stay
    // dormant, `hook` passes everything on.
    if (current == _PyEval_EvalFrameDefault) g_linked = false;
  }
}

}  // namespace

const Engine kEngine = {"frame_hook", "set_profile", arm, disarm};

}  // namespace frametap

#endif
