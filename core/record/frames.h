// The only file that knows how CPython lays out its frames, per version.
//
// In: a thread state or an interpreter frame. Out: code, instruction, caller, owner, first local.
// Nothing here takes a reference or allocates. The public accessors (PyUnstable_InterpreterFrame_*)
// would cost 3 to 11 ns a call and do not give the caller at all.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <opcode.h>

#if defined(Py_GIL_DISABLED)
#error "frametap does not support free-threaded builds of CPython yet"
#endif
#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x03100000
#error "frametap supports CPython 3.11 to 3.15"
#endif

#define Py_BUILD_CORE 1
extern "C" {
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe_structs.h"
#endif
#include "internal/pycore_frame.h"
}
#undef Py_BUILD_CORE

#include <cstddef>
#include <cstdint>

namespace frametap {

using Frame = struct _PyInterpreterFrame;
#if PY_VERSION_HEX >= 0x030e0000
using Generator = struct _PyGenObject;
#else
using Generator = PyGenObject;
#endif

inline PyThreadState* current_thread_state() {
#if PY_VERSION_HEX < 0x030d0000
  return _PyThreadState_UncheckedGet();
#else
  return PyThreadState_GetUnchecked();
#endif
}

inline PyCodeObject* frame_code(const Frame* f) {
#if PY_VERSION_HEX < 0x030d0000
  return f->f_code;
#elif PY_VERSION_HEX < 0x030e0000
  return reinterpret_cast<PyCodeObject*>(f->f_executable);
#else
  return reinterpret_cast<PyCodeObject*>(f->f_executable.bits & ~uintptr_t(3));
#endif
}

inline const char* frame_ip(const Frame* f) {
#if PY_VERSION_HEX < 0x030d0000
  return reinterpret_cast<const char*>(f->prev_instr);
#else
  return reinterpret_cast<const char*>(f->instr_ptr);
#endif
}

inline Frame* top_frame(const PyThreadState* ts) {
#if PY_VERSION_HEX < 0x030d0000
  return ts->cframe->current_frame;
#else
  return ts->current_frame;
#endif
}

inline PyObject* first_local(const Frame* f) {
#if PY_VERSION_HEX < 0x030e0000
  return f->localsplus[0];
#else
  return reinterpret_cast<PyObject*>(f->localsplus[0].bits & ~uintptr_t(3));
#endif
}

inline bool owned_by_generator(const Frame* f) { return f->owner == FRAME_OWNED_BY_GENERATOR; }

// 3.12+: frames that stand for C code in the chain; they have no code object of their own.
inline bool is_sentinel([[maybe_unused]] const Frame* f) {
#if PY_VERSION_HEX < 0x030c0000
  return false;
#else
  return f->owner >= 3;
#endif
}

inline int frame_lasti_bytes(const Frame* f, const PyCodeObject* code) {
  return int(frame_ip(f) - code->co_code_adaptive);
}

// A frame before its first RESUME: still being set up, or 3.13's helper frame (also called
// `__init__`) between a class and its `__init__`. No event told of it, so it is nobody's caller. On
// 3.11 the hook sees a frame before it is set up: every frame counts.
inline bool is_incomplete(const Frame* f) {
  if (PY_VERSION_HEX < 0x030c0000 || owned_by_generator(f)) return false;
  const PyCodeObject* code = frame_code(f);
  return frame_lasti_bytes(f, code) < int(code->_co_firsttraceable * sizeof(_Py_CODEUNIT));
}

// 3.13+: a collection or a signal handler can run in a frame that stands at its RESUME, before the
// event of its entry.
inline bool stands_at_resume([[maybe_unused]] const Frame* f) {
#if PY_VERSION_HEX >= 0x030c0000
  auto opcode = static_cast<unsigned char>(*frame_ip(f));
#if PY_VERSION_HEX >= 0x030d0000
  if (opcode == RESUME_CHECK) return true;
#endif
#if PY_VERSION_HEX >= 0x030f0000
  if (opcode == RESUME_CHECK_JIT) return true;
#endif
  return opcode == RESUME || opcode == INSTRUMENTED_RESUME;
#else
  return false;
#endif
}

// A generator's frame that has not run yet stands before its RESUME.
inline bool never_resumed(const Frame* f) {
  const PyCodeObject* code = frame_code(f);
  return frame_lasti_bytes(f, code) < int(code->_co_firsttraceable * sizeof(_Py_CODEUNIT));
}

inline Frame* skip_to_caller(Frame* f) {
  while (f && (is_sentinel(f) || is_incomplete(f))) f = f->previous;
  return f;
}

inline Generator* generator_of(const Frame* f) {
  return reinterpret_cast<Generator*>(const_cast<char*>(reinterpret_cast<const char*>(f)) -
                                      offsetof(Generator, gi_iframe));
}

// 3.11 only asks this, after the frame was left: did it suspend (yield, await) or finish?
inline bool is_suspended(const Generator* g) {
#if PY_VERSION_HEX >= 0x030f0000
  return g->gi_frame_state == 1 || g->gi_frame_state == 2 || g->gi_frame_state == 3;
#else
  return g->gi_frame_state == -1 || g->gi_frame_state == -2;
#endif
}

inline void give_recursion_room(PyThreadState* ts, int n_frames) {
#if PY_VERSION_HEX < 0x030c0000
  ts->recursion_remaining += n_frames;
#else
  ts->py_recursion_remaining += n_frames;
#endif
}

inline int code_line(PyCodeObject* code, int lasti_bytes) {
  return lasti_bytes < 0 ? code->co_firstlineno : PyCode_Addr2Line(code, lasti_bytes);
}

}  // namespace frametap
