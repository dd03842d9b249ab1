#include "record/session.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>

#include "record/describe.h"
#include "record/tap.h"

namespace frametap {

using format::LossKind;
using format::RecordKind;

volatile uint64_t g_generation = 0;
bool g_deep_gap = false;
EventsFile g_events;
Journal g_journal;
__thread Recorder* t_recorder __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

struct Session {
  bool started = false;
  bool c_calls = false;
  bool gc = false;
  PyInterpreterState* interpreter = nullptr;
  uint32_t next_life = 1;
  uint64_t next_span = 1;
  std::unordered_map<PyThreadState*, Recorder*> by_thread_state;
  std::vector<Recorder*> recorders;  // of this session
  PyObject* gc_callback = nullptr;
  bool other_interpreter_noted = false;
};
// Never destroyed: threads can still come here while the process ends.
Session& g = *new Session;

constexpr size_t kFirstSegmentBytes = 16 << 10;
constexpr size_t kFullSegmentBytes = 1 << 20;
constexpr size_t kLongestRecordBytes = 64;
constexpr size_t kScratchBytes = 4096;
constexpr size_t kMirrorBytes = 64 << 10;
// Hooked calls on 3.11 use C stack; this much of it is left to the program's own C code.
constexpr size_t kStackReserveBytes = 2 << 20;

std::string number_line(const char* kind, std::initializer_list<uint64_t> numbers) {
  std::string s = "[\"";
  s.append(kind).append("\"");
  for (uint64_t n : numbers) s.append(",").append(std::to_string(n));
  return s.append("]\n");
}

void journal(const std::string& lines) {
  if (!g_journal.write(lines)) g_events.count_loss(LossKind::kJournal);
}

// Words in scratch are events that were lost: counts them, payload words excluded.
uint64_t count_events(const char* p, const char* end) {
  uint64_t n = 0;
  while (p < end) {
    uint64_t word;
    memcpy(&word, p, 8);
    uint32_t id = uint32_t(word);
    p += 8;
    if (id == format::kSync) {
      p += 8;
      continue;
    }
    if (id == format::kRecord && p < end) {
      memcpy(&word, p, 8);
      p += 8 + ((word >> 8) & 0xff) * 8;
    } else if (id & format::kResumeBit) {
      p += 8;
    }
    n++;
  }
  return n;
}

void set_segment(Recorder* r, Segment segment) {
  r->segment = segment;
  if (segment) {
    r->p = segment.begin();
    r->end = segment.end() - kLongestRecordBytes;
    return;
  }
  // No room: words go to scratch memory, which is counted when it is full and used again.
  if (!r->scratch) r->scratch = new char[kScratchBytes + kLongestRecordBytes];
  r->lossy = true;
  r->p = r->scratch;
  r->end = r->scratch + kScratchBytes - kLongestRecordBytes;
}

void close_segment(Recorder* r) {
  if (r->lossy) {
    g_events.count_loss(LossKind::kDroppedEvents, count_events(r->scratch, r->p));
    r->p = r->scratch;
  } else if (r->segment) {
    g_events.give_back(r->segment, r->p);
    r->segment = {};
  }
}

#if PY_VERSION_HEX < 0x030c0000
// The lowest address that hooked calls may use on this thread's C stack.
char* stack_limit_of_this_thread() {
  pthread_attr_t attributes;
  void* low = nullptr;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
  }
  if (!low) {
    size = 4 << 20;
    low = static_cast<char*>(__builtin_frame_address(0)) - size + (256 << 10);
  }
  size_t reserve = size / 2 < kStackReserveBytes ? size / 2 : kStackReserveBytes;
  return static_cast<char*>(low) + reserve;
}
#endif

void free_mirror(Recorder* r) {
  if (r->mirror) munmap(r->mirror, size_t(r->sp_end - r->mirror) * sizeof(MirrorEntry));
  r->mirror = r->sp = r->sp_end = r->before_end = nullptr;
}

// The thread's state dict dies with the thread: its end, told by CPython itself.
void thread_ended(PyObject* capsule) {
  auto* r = static_cast<Recorder*>(PyCapsule_GetPointer(capsule, nullptr));
  if (!r) {
    PyErr_Clear();
    return;
  }
  // Ended by another thread (the interpreter's end): its own will not come here again.
  if (t_recorder == r)
    t_recorder = nullptr;
  else
    r->ts = nullptr;
  r->ended = true;
  if (!g.started || r->generation == 0) return;
  if (g_generation & 1) write_record(r, now_ticks(), RecordKind::kThreadEnd, 0);
  // Later events (destructors of thread locals) come through recorder_for, which opens a segment.
  close_segment(r);
  r->p = r->end = nullptr;
  std::string name = thread_name_again(r->thread_object);
  std::string lines;
  if (!name.empty() && name != r->name)
    lines = "[\"thread\"," + std::to_string(r->life) + ",-1," + name + "," + std::to_string(r->last) + "]\n";
  Py_CLEAR(r->thread_object);
  journal(lines + number_line("thread_end", {r->life, r->last}));
  free_mirror(r);
}

void make_mirror(Recorder* r) {
  void* map = mmap(nullptr, kMirrorBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return;
  r->mirror = static_cast<MirrorEntry*>(map);
  r->sp_end = r->mirror + kMirrorBytes / sizeof(MirrorEntry);
  r->sp = r->before_end = r->mirror + 1;
}

// Writes the stack that runs on a thread now, outermost first.
void write_running_stack(Recorder* r, PyThreadState* ts) {
  r->sp = r->before_end = r->mirror + 1;
  r->parked.clear();
  r->parked_by_top.clear();
  write_record(r, now_ticks(), RecordKind::kArm, 0);
  if (r->stack_id != 0) write_record(r, r->last, RecordKind::kSwitch, 0);
  r->stack_id = 0;
  std::vector<Frame*> frames;
  for (Frame* f = skip_to_caller(top_frame(ts)); f; f = skip_to_caller(f->previous)) frames.push_back(f);
  // Under `frametap run`, what lies around our command line (runpy, the installed script) is not the
  // program's: under plain Python it would not be there.
  size_t launcher = 0;
  for (size_t i = 0; i < frames.size(); i++)
    if (g_sites.is_launcher(frame_code(frames[i]))) launcher = i;
  for (size_t i = frames.size(); i-- > 0;)
    open_running_frame(r, frames[i], RecordKind::kBefore, launcher > 0 && i >= launcher);
  r->before_end = r->sp;
}

Recorder* new_recorder(PyThreadState* ts, Frame* entering) {
  auto* r = new Recorder;
  make_mirror(r);
  if (!r->mirror) {
    delete r;
    g_events.count_loss(LossKind::kThreadSetup);
    return nullptr;
  }
  r->ts = ts;
  r->thread_state_id = ts->id;
  r->life = g.next_life++;
  r->last = now_ticks();
  r->generation = g_generation;
  r->segment_bytes = kFirstSegmentBytes;
  set_segment(r, g_events.take(r->life, 0, r->last, r->segment_bytes));
  g.by_thread_state[ts] = r;
  g.recorders.push_back(r);
  r->name = thread_name(ts, entering, &r->thread_object);
  journal("[\"thread\"," + std::to_string(r->life) + "," + std::to_string(ts->native_thread_id) + "," + r->name + "," +
          std::to_string(r->last) + "]\n");
  return r;
}

// Hears of the thread's end. Can run a collection, so it comes last.
void watch_thread(Recorder* r, PyThreadState* ts) {
  static PyObject* key = nullptr;
  if (!key) key = PyUnicode_InternFromString("frametap.recorder");
  if (!ts->dict) ts->dict = PyDict_New();  // as PyThreadState_GetDict does, for any thread
  PyObject* capsule = PyCapsule_New(r, nullptr, thread_ended);
  if (ts->dict && key && capsule) PyDict_SetItem(ts->dict, key, capsule);
  Py_XDECREF(capsule);
  PyErr_Clear();
}

Recorder* find_recorder(PyThreadState* ts) {
  auto it = g.by_thread_state.find(ts);
  if (it == g.by_thread_state.end() || it->second->thread_state_id != ts->id) return nullptr;
  return it->second;
}

// ---- garbage collections ----------------------------------------------------------------------

PyObject* on_collection(PyObject*, PyObject* const* args, Py_ssize_t n) {
  uint64_t tick = now_ticks();
  if (!(g_generation & 1) || n < 2 || !PyUnicode_Check(args[0])) Py_RETURN_NONE;
  PyThreadState* ts = PyThreadState_Get();
  Recorder* r = t_recorder;
  if (!r || r->ts != ts) r = recorder_for(ts, nullptr);
  if (!r) Py_RETURN_NONE;
  if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
    PyObject* generation = PyDict_Check(args[1]) ? PyDict_GetItemString(args[1], "generation") : nullptr;
    int number = generation && PyLong_Check(generation) ? int(PyLong_AsLong(generation)) : 2;
    Frame* caller = skip_to_caller(top_frame(ts));
    // In a trace function's frame, or deeper than the hook goes, no event tells of the frames: the
    // collection lies under the last that is known.
    if (!ts->tracing && !g_deep_gap) expect_caller(r, caller);
    uint32_t id = g_sites.gc_site(number, caller);
    push(r, frame_part(r->sp[-1]) | kCollectionTag);
    put(r, now_ticks(), id);
  } else if ((r->sp[-1] & kTags) == kCollectionTag) {
    r->sp--;
    put(r, tick, format::kCReturn);
  }
  Py_RETURN_NONE;
}
PyMethodDef on_collection_method = {
    "frametap_gc", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(on_collection)), METH_FASTCALL, nullptr};

PyObject* gc_callbacks() {  // borrowed
  PyObject* gc = PyImport_ImportModule("gc");
  PyObject* list = gc ? PyObject_GetAttrString(gc, "callbacks") : nullptr;
  Py_XDECREF(gc);
  Py_XDECREF(list);  // the module holds it
  if (!list || !PyList_Check(list)) {
    PyErr_Clear();
    return nullptr;
  }
  return list;
}

// `list` was looked up before recording began: the import is not the program's.
void listen_to_gc(PyObject* list, bool on) {
  if (!list) return;
  if (!g.gc_callback) g.gc_callback = PyCFunction_New(&on_collection_method, nullptr);
  if (!g.gc_callback) {
    PyErr_Clear();
    return;
  }
  if (on) {
    PyList_Append(list, g.gc_callback);
  } else {
    // By identity: the other entries' `==` is the program's code.
    for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;)
      if (PyList_GET_ITEM(list, i) == g.gc_callback) PyList_SetSlice(list, i, i + 1, nullptr);
  }
  PyErr_Clear();
}

// ---- fork -------------------------------------------------------------------------------------

void before_fork() { g_events.stop_helper(); }

// The child shares the parent's mapped file: it must not write another word.
void in_child() {
  if (!g.started) return;
  if (g_generation & 1) g_generation = g_generation + 1;
  t_recorder = nullptr;
  g.started = false;
  g.by_thread_state.clear();
  for (Recorder* r : g.recorders) r->generation = 0;
  g.recorders.clear();
  g_events.abandon();
  g_journal.abandon();
  g.interpreter = nullptr;
}

// After in_child(), with the interpreter usable again: nothing is recorded here, so nothing is hooked.
PyObject* child_can_run_python(PyObject*, PyObject*) {
  if (!g.started) {
    kEngine.disarm();
    listen_to_gc(gc_callbacks(), false);
  }
  PyErr_Clear();
  Py_RETURN_NONE;
}
PyObject* parent_has_forked(PyObject*, PyObject*) {
  if (g.started) g_events.count_loss(LossKind::kForked);
  Py_RETURN_NONE;
}
PyMethodDef parent_method = {"frametap_parent", parent_has_forked, METH_NOARGS, nullptr};
PyMethodDef child_method = {"frametap_child", child_can_run_python, METH_NOARGS, nullptr};

void watch_forks() {
  static bool done = false;
  if (done) return;
  done = true;
  pthread_atfork(before_fork, nullptr, in_child);
  PyObject* os = PyImport_ImportModule("os");
  PyObject* register_at_fork = os ? PyObject_GetAttrString(os, "register_at_fork") : nullptr;
  PyObject* args = PyTuple_New(0);
  PyObject* kwargs = Py_BuildValue("{s:N,s:N}", "after_in_child", PyCFunction_New(&child_method, nullptr),
                                   "after_in_parent", PyCFunction_New(&parent_method, nullptr));
  if (register_at_fork && args && kwargs) Py_XDECREF(PyObject_Call(register_at_fork, args, kwargs));
  Py_XDECREF(kwargs);
  Py_XDECREF(args);
  Py_XDECREF(register_at_fork);
  Py_XDECREF(os);
  PyErr_Clear();
}

// ---- arming -----------------------------------------------------------------------------------

void arm() {
  g_deep_gap = false;
  g_generation = g_generation + 1;
  uint64_t generation = g_generation;
  std::vector<std::pair<Recorder*, PyThreadState*>> fresh;
  for (PyThreadState* ts = PyInterpreterState_ThreadHead(g.interpreter); ts; ts = PyThreadState_Next(ts)) {
    Recorder* r = find_recorder(ts);
    if (r && r->ended) continue;
    if (!r) {
      r = new_recorder(ts, nullptr);
      if (!r) continue;
      fresh.emplace_back(r, ts);
    }
    r->generation = generation;
    write_running_stack(r, ts);
  }
  if (!kEngine.arm(g.c_calls)) {
    g_generation = g_generation + 1;
    throw SessionError("");
  }
  for (auto [r, ts] : fresh) watch_thread(r, ts);
}

void disarm() {
  kEngine.disarm();
  g_generation = g_generation + 1;
  uint64_t tick = now_ticks();
  for (Recorder* r : g.recorders)
    if (r->mirror && !r->ended) write_record(r, tick, RecordKind::kDisarm, 0);
}

double measure_ticks_per_ns() {
  // Good to a few parts in a thousand, and only used when the process is killed; a stop pair is exact.
  format::ClockPair a = read_clock_pair(), b;
  do {
    b = read_clock_pair();
  } while (b.monotonic_ns - a.monotonic_ns < 500'000);
  return ticks_per_ns(a, b);
}

}  // namespace

bool session_wants_c_calls() { return g.c_calls; }

Recorder* recorder_for(PyThreadState* ts, Frame* entering) {
  if (!g.started) return nullptr;
  if (ts->interp != g.interpreter) {
    g_events.count_loss(LossKind::kOtherInterpreter);
    return nullptr;
  }
  Recorder* r = find_recorder(ts);
  if (r) {
    if (!r->ended) {
      t_recorder = r;
#if PY_VERSION_HEX < 0x030c0000
      if (!r->stack_limit) r->stack_limit = stack_limit_of_this_thread();
#endif
    } else if (!r->mirror) {
      make_mirror(r);
      if (!r->mirror) return nullptr;
      if (!r->lossy) set_segment(r, g_events.take(r->life, ++r->sequence, r->last, kFirstSegmentBytes));
    }
    return r;
  }
  r = new_recorder(ts, entering);
  if (!r) return nullptr;
#if PY_VERSION_HEX < 0x030c0000
  r->stack_limit = stack_limit_of_this_thread();
#endif
  t_recorder = r;
  write_record(r, now_ticks(), RecordKind::kArm, 0);
  watch_thread(r, ts);
  return r;
}

uint64_t bridge_ticks(Recorder* r, uint64_t tick) {
  // An exit reads its tick first; a repair that it needed has written later ones. The clocks of two
  // processors can differ by as little.
  constexpr uint64_t kSmall = uint64_t(1) << 32;
  if (tick < r->last && r->last - tick < kSmall) return r->last;
  reinterpret_cast<uint64_t*>(r->p)[1] = tick;
  asm volatile("" ::: "memory");
  reinterpret_cast<uint64_t*>(r->p)[0] = format::kSync;
  r->p += 16;
  r->last = tick;
  return tick;
}

void write_record(Recorder* r, uint64_t tick, RecordKind kind, uint64_t arg, int n_words, uint64_t word) {
  if ((tick - r->last) >> 32) tick = bridge_ticks(r, tick);
  uint64_t delta = tick - r->last;
  r->last = tick;
  auto* p = reinterpret_cast<uint64_t*>(r->p);
  if (n_words) p[2] = word;
  p[1] = arg << 16 | uint64_t(n_words) << 8 | uint64_t(kind);
  asm volatile("" ::: "memory");
  p[0] = delta << 32 | format::kRecord;
  r->p += 16 + n_words * 8;
  if (r->p >= r->end) next_segment(r);
}

void next_segment(Recorder* r) {
  close_segment(r);
  if (r->lossy) return;
  r->sequence++;
  // Short threads stay small; the others soon write whole chunks.
  r->segment_bytes = r->segment_bytes * 8 > kFullSegmentBytes ? kFullSegmentBytes : r->segment_bytes * 8;
  set_segment(r, g_events.take(r->life, r->sequence, r->last, r->segment_bytes));
}

void grow_mirror(Recorder* r) {
  size_t used = size_t(r->sp - r->mirror), before = size_t(r->before_end - r->mirror);
  size_t bytes = size_t(r->sp_end - r->mirror) * sizeof(MirrorEntry);
  void* map = mremap(r->mirror, bytes, bytes * 2, MREMAP_MAYMOVE);
  if (map == MAP_FAILED) {
    // Out of memory far from any sensible depth: forget the outer half; their exits will be spurious.
    size_t half = used / 2;
    memmove(r->mirror + 1, r->mirror + half, (used - half) * sizeof(MirrorEntry));
    r->sp = r->mirror + 1 + (used - half);
    r->before_end = r->mirror + 1;
    return;
  }
  r->mirror = static_cast<MirrorEntry*>(map);
  r->sp = r->mirror + used;
  r->before_end = r->mirror + before;
  r->sp_end = r->mirror + bytes * 2 / sizeof(MirrorEntry);
}

std::vector<std::string> engines() { return {kEngine.name, kEngine.name_with_c_calls}; }

std::string start(const SessionOptions& options) {
  if (g.started) throw SessionError("recording runs already in this process");
  const char* name = options.c_calls ? kEngine.name_with_c_calls : kEngine.name;
  if (options.engine != "auto" && options.engine != name)
    throw SessionError("engine " + options.engine + (options.c_calls ? " with C calls" : "") +
                       " is not available on this Python; use " + name + " or auto");
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw SessionError("recording can only be started in the main interpreter");
  if (!g_sites.set_up()) throw SessionError("no memory for the table of call sites");
  if (int error = g_events.open(options.folder + "/events.bin", measure_ticks_per_ns()))
    throw SessionError(options.folder + "/events.bin: " + strerror(error));
  if (int error = g_journal.open(options.folder + "/tables.jsonl")) {
    g_events.close();
    throw SessionError(options.folder + "/tables.jsonl: " + strerror(error));
  }
  watch_forks();
  PyObject* callbacks = gc_callbacks();
  g.c_calls = options.c_calls;
  g.gc = options.gc;
  g.interpreter = PyInterpreterState_Get();
  g.next_life = 1;
  g.next_span = 1;
  g_sites.begin_session(options.package_folder);
  g.started = true;
  try {
    arm();
  } catch (...) {
    stop();
    throw;
  }
  if (g.gc) listen_to_gc(callbacks, true);
  return name;
}

void stop() {
  if (!g.started) return;
  if (g_generation & 1) disarm();
  if (g.gc) listen_to_gc(gc_callbacks(), false);
  g.started = false;
  std::string lines;
  for (Recorder* r : g.recorders) {
    close_segment(r);
    if (!r->ended) {
      std::string name = thread_name_again(r->thread_object);
      if (!name.empty() && name != r->name)
        lines += "[\"thread\"," + std::to_string(r->life) + ",-1," + name + "," + std::to_string(r->last) + "]\n";
    }
    Py_CLEAR(r->thread_object);
    free_mirror(r);
    delete[] r->scratch;
    r->scratch = nullptr;
    // The struct itself stays: a frame that was entered while recording may still look at it, and the
    // thread's capsule points to it.
    r->generation = 0;
    r->ts = nullptr;
  }
  if (!lines.empty()) journal(lines);
  g.recorders.clear();
  g.by_thread_state.clear();
  g_journal.close();
  g_events.close();
}

void pause() {
  if (g.started && (g_generation & 1)) disarm();
}

void resume() {
  if (g.started && !(g_generation & 1)) arm();
}

bool is_recording() { return g.started && (g_generation & 1); }
bool is_started() { return g.started; }

// ---- marks ------------------------------------------------------------------------------------

namespace {

Recorder* recorder_for_mark() {
  if (!(g_generation & 1)) return nullptr;
  PyThreadState* ts = PyThreadState_Get();
  Recorder* r = t_recorder;
  return r && r->ts == ts ? r : recorder_for(ts, nullptr);
}

}  // namespace

void instant(PyObject* name) {
  uint64_t tick = now_ticks();
  if (Recorder* r = recorder_for_mark()) write_record(r, tick, RecordKind::kInstant, g_sites.name_id(name));
}

void counter(PyObject* name, double value) {
  uint64_t tick = now_ticks();
  if (Recorder* r = recorder_for_mark())
    write_record(r, tick, RecordKind::kCounter, g_sites.name_id(name), 1, std::bit_cast<uint64_t>(value));
}

uint64_t span_begin(PyObject* name) {
  Recorder* r = recorder_for_mark();
  if (!r) return 0;
  uint64_t serial = g.next_span++;
  uint32_t id = g_sites.name_id(name);
  write_record(r, now_ticks(), RecordKind::kSpanBegin, id, 1, serial);
  return serial;
}

void span_end(uint64_t serial) {
  uint64_t tick = now_ticks();
  if (!serial) return;
  if (Recorder* r = recorder_for_mark()) write_record(r, tick, RecordKind::kSpanEnd, 0, 1, serial);
}

std::map<std::string, uint64_t> losses() {
  static constexpr const char* kNames[] = {
      "dropped_events",    "hook_displaced", "deep_stack", "unmatched_exit", "missed_entry", "gone_unseen",
      "other_interpreter", "table_full",     "journal",    "thread_setup",   "forked",       "c_calls_displaced"};
  std::map<std::string, uint64_t> result;
  for (size_t i = 0; i < std::size(kNames); i++)
    if (uint64_t n = g_events.losses(LossKind(i))) result[kNames[i]] = n;
  return result;
}

}  // namespace frametap
