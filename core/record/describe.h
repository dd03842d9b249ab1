// Names for the journal: what a function is called, where it lies, what kind it is.
//
// Runs in the middle of the program's calls, with the GIL: reads strings and slots only, never runs
// the program's `__repr__`, `__getattr__` or properties, takes no reference that outlives the call
// (watch_c_callable: weak ones).
#pragma once

#include <string>

#include "record/frames.h"

namespace frametap {

// Before anything is recorded. False: this interpreter lacks what every CPython has.
bool set_up_descriptions();

// `text` as a JSON string in ASCII; lone surrogates as \udXXX. Not a str: "".
void append_json_string(std::string& out, PyObject* text);
bool path_in_folder(PyObject* path, const std::string& folder);

void describe_python_function(std::string& out, uint32_t id, PyCodeObject* code, const Frame* frame, bool internal);
void describe_c_function(std::string& out, uint32_t id, PyObject* callable, PyObject* arg0);
// Tells Sites::forget_c(key) when the callable that `key` stands for dies.
void watch_c_callable(uintptr_t key, PyObject* callable);

// A thread's name as a JSON string, from its threading.Thread if there is one, else the system's; with
// a weak reference to that Thread (new reference or null). `entering`: a frame about to run, or null.
std::string thread_name(PyThreadState* ts, Frame* entering, PyObject** weak_thread);
// Its name now as a JSON string, or empty if it is gone.
std::string thread_name_again(PyObject* weak_thread);

}  // namespace frametap
