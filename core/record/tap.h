// THE HOT PATH: what a call and a return do.
//
// Shape of both: cheap exits, guard, write. A thread's recorder keeps a mirror of its Python stack
// (frame addresses); comparing its top with the caller's frame finds, at the cost of one compare,
// everything that can go wrong: frames that ran before we started and have returned unseen,
// greenlet switches, entries that were missed. The repair is the slow path (mirror.cpp).
//
// A change here quotes nanoseconds and instructions per call, before and after.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/frames.h"
#include "record/sites.h"
#include "store/clock.h"
#include "store/format.h"
#include "store/spool.h"

#define FT_LIKELY(x) __builtin_expect(!!(x), 1)
#define FT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FT_COLD __attribute__((noinline, cold))
#define FT_INLINE inline __attribute__((always_inline))

namespace frametap {

// Mirror entries: a frame's address; the low bits say what was entered from it.
using MirrorEntry = uintptr_t;
inline constexpr MirrorEntry kCallTag = 1;        // a C call made by that frame
inline constexpr MirrorEntry kCollectionTag = 2;  // a garbage collection that began in that frame
inline constexpr MirrorEntry kQuietTag = 3;       // that frame itself, but its entry and exit are no events
inline constexpr MirrorEntry kTags = 3;
inline MirrorEntry entry_of(const Frame* f) { return reinterpret_cast<MirrorEntry>(f); }
inline MirrorEntry frame_part(MirrorEntry e) { return e & ~kTags; }

// A stack that is not running: the thread's own, or a greenlet's.
struct ParkedStack {
  uint32_t id;
  size_t n_before;                   // of its entries, outermost: ran before recording started
  std::vector<MirrorEntry> entries;  // without the bottom
};

struct alignas(64) Recorder {
  // Touched on every event: one cache line.
  char* p = nullptr;                 // next word
  char* end = nullptr;               // leaves room for the longest record
  uint64_t last = 0;                 // tick of the last event
  MirrorEntry* sp = nullptr;         // one past the innermost entry; sp[-1] always exists
  MirrorEntry* sp_end = nullptr;
  PyThreadState* ts = nullptr;
  char* stack_limit = nullptr;       // 3.11: below this address the C stack runs short
  uint64_t generation = 0;

  // The rest.
  MirrorEntry* mirror = nullptr;     // mirror[0] is 0, the bottom: no caller
  MirrorEntry* before_end = nullptr; // entries below it ran before recording started
  Segment segment;
  uint32_t sequence = 0;
  uint32_t life = 0;
  uint32_t stack_id = 0;
  uint32_t next_stack_id = 1;
  uint64_t thread_state_id = 0;      // PyThreadState::id: addresses are used again, ids are not
  bool ended = false;
  bool lossy = false;                // no room: words go to `scratch` and are counted
  size_t segment_bytes = 0;
  std::vector<ParkedStack> parked;
  std::unordered_map<MirrorEntry, size_t> parked_by_top;
  PyObject* thread_object = nullptr; // weak reference to the threading.Thread, for its last name
  std::string name;
  char* scratch = nullptr;
};

// Odd: recording. Every start, stop, pause and resume adds one, so an exit whose entry belongs to an
// earlier time is recognised by one compare.
extern volatile uint64_t g_generation;
// 3.11: a thread is too deep to be hooked, and nobody is meanwhile (frame_hook.cpp).
extern bool g_deep_gap;
extern EventsFile g_events;
extern Journal g_journal;
extern __thread Recorder* t_recorder __attribute__((tls_model("initial-exec")));

// ---- slow paths -------------------------------------------------------------------------------
// `entering`: the frame about to run, where it is not linked yet. nullptr: this thread is not recorded.
FT_COLD Recorder* recorder_for(PyThreadState* ts, Frame* entering);
FT_COLD void next_segment(Recorder* r);
FT_COLD void grow_mirror(Recorder* r);
// `tick` does not follow the last one within 2^32: writes a sync word. Returns the tick to go on with.
FT_COLD uint64_t bridge_ticks(Recorder* r, uint64_t tick);
// Opens a frame that runs without its entry having been seen.
void open_running_frame(Recorder* r, Frame* frame, format::RecordKind kind, bool hidden = false);
// The caller of an entry is not on top of the mirror: repairs the mirror so that it is.
FT_COLD void repair_entry(Recorder* r, Frame* caller);
// The frame that is left is not on top. True: it is now.
FT_COLD bool repair_exit(Recorder* r, Frame* frame);
// True: a parked stack has this entry on top, and runs now.
FT_COLD bool switch_to_stack_with(Recorder* r, MirrorEntry entry);
void write_record(Recorder* r, uint64_t tick, format::RecordKind kind, uint64_t arg, int n_words = 0,
                  uint64_t word = 0);

// ---- events -----------------------------------------------------------------------------------
FT_INLINE void put(Recorder* r, uint64_t tick, uint32_t id) {
  uint64_t delta = tick - r->last;
  if (FT_UNLIKELY(delta >> 32)) {
    tick = bridge_ticks(r, tick);
    delta = tick - r->last;
  }
  r->last = tick;
  char* p = r->p;
  *reinterpret_cast<uint64_t*>(p) = delta << 32 | id;
  p += 8;
  r->p = p;
  if (FT_UNLIKELY(p >= r->end)) next_segment(r);
}

// The entry of a generator's resume: its payload word is written first, so that a process killed in
// between leaves no event without its payload.
FT_INLINE void put_resume(Recorder* r, uint64_t tick, uint32_t id, const Frame* frame, bool first) {
  uint64_t delta = tick - r->last;
  if (FT_UNLIKELY(delta >> 32)) {
    tick = bridge_ticks(r, tick);
    delta = tick - r->last;
  }
  r->last = tick;
  char* p = r->p;
  reinterpret_cast<uint64_t*>(p)[1] = uint64_t(reinterpret_cast<uintptr_t>(frame)) << 1 | uint64_t(first);
  asm volatile("" ::: "memory");
  reinterpret_cast<uint64_t*>(p)[0] = delta << 32 | id;
  p += 16;
  r->p = p;
  if (FT_UNLIKELY(p >= r->end)) next_segment(r);
}

FT_INLINE void push(Recorder* r, MirrorEntry e) {
  if (FT_UNLIKELY(r->sp == r->sp_end)) grow_mirror(r);
  *r->sp++ = e;
}

// The caller must be on top of the mirror before a call is recorded.
FT_INLINE void expect_caller(Recorder* r, Frame* caller) {
  if (FT_UNLIKELY(frame_part(r->sp[-1]) != entry_of(caller))) repair_entry(r, caller);
}

// ---- C calls, by whichever engine sees them -----------------------------------------------------
FT_INLINE uint32_t c_site_id(Frame* caller, uintptr_t ip, PyObject* callable, PyObject* arg0, int lasti) {
  uintptr_t key = c_callable_key(callable);
  uint32_t id;
  if (FT_LIKELY(Sites::find(ip, key, id))) return id;
  return g_sites.c_site(ip, key, callable, arg0, caller, lasti);
}

// A C call that never told of its return (docs/decisions): it ended before this.
FT_INLINE void close_silent_c_call(Recorder* r, Frame* frame) {
  if (FT_UNLIKELY(r->sp[-1] == (entry_of(frame) | kCallTag))) {
    r->sp--;
    write_record(r, r->last, format::RecordKind::kGone, 1);
    g_events.count_loss(format::LossKind::kGoneUnseen);
  }
}

FT_INLINE void enter_c(Recorder* r, Frame* caller, uintptr_t ip, PyObject* callable, PyObject* arg0, int lasti) {
  close_silent_c_call(r, caller);
  expect_caller(r, caller);
  uint32_t id = c_site_id(caller, ip, callable, arg0, lasti);
  push(r, entry_of(caller) | kCallTag);
  put(r, now_ticks(), id);
}

// C calls that were already running when recording started return without an entry: no loss. Or a
// greenlet was switched away from in a C call, and goes on with the return of its own.
FT_INLINE void leave_c(Recorder* r, uint64_t tick, Frame* caller, uint32_t how) {
  const MirrorEntry entry = entry_of(caller) | kCallTag;
  if (FT_LIKELY(r->sp[-1] == entry) || (!r->parked.empty() && switch_to_stack_with(r, entry))) {
    r->sp--;
    put(r, tick, how);
  }
}

}  // namespace frametap
