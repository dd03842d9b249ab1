// Starting, pausing and stopping; the recorders of threads; marks.
//
// In: a folder for one process's spool. Out: events.bin and tables.jsonl in it.
// Every function here is called with the GIL, which is what keeps the other threads' recorders still.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "record/frames.h"

namespace frametap {

// A Python exception is set, or `what()` says it all.
struct SessionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct SessionOptions {
  std::string folder;          // exists; receives events.bin and tables.jsonl
  std::string package_folder;  // frametap's own Python files, with a slash at the end: never recorded
  std::string engine;          // "auto" or a name from engines()
  bool c_calls = false;
  bool gc = true;
};

// One way to see calls. Only one is built per Python version, plus C calls.
struct Engine {
  const char* name;
  const char* name_with_c_calls;
  // Events on or off, for all threads. arm() runs after the threads' stacks were written down and
  // before any other Python code. Returns false with a Python exception set.
  bool (*arm)(bool c_calls);
  void (*disarm)();
};
extern const Engine kEngine;

std::vector<std::string> engines();
// Returns the engine's name.
std::string start(const SessionOptions& options);
void stop();
void pause();
void resume();
bool is_recording();
bool is_started();
std::map<std::string, uint64_t> losses();

// Marks: on the calling thread's track; nothing happens when not recording.
void instant(PyObject* name);
void counter(PyObject* name, double value);
uint64_t span_begin(PyObject* name);  // 0: not recording
void span_end(uint64_t serial);

bool session_wants_c_calls();

}  // namespace frametap
