// C calls on 3.11: the interpreter's profile function, on every thread that records.
//
// Python calls stay with the frame hook, which tells resumes, yields and throws apart and sees threads
// that were not started by `threading`; the profile function ignores them.
#pragma once

#include "record/frames.h"

#if PY_VERSION_HEX < 0x030c0000
namespace frametap {

bool profile_c_calls_on_all_threads();
void stop_profiling_c_calls();
// True: ours is in place on this thread. Otherwise somebody took it: notes that, and takes a free
// place back.
void reclaim_profile_function(PyThreadState* ts);
int on_profile_event(PyObject*, PyFrameObject* frame, int what, PyObject* arg);

}  // namespace frametap
#endif
