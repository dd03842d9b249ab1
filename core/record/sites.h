// Call-site interning: (caller's instruction, callee) -> 32-bit site id.
//
// The hot path looks a pair of addresses up in a table that the caller's instruction indexes
// directly: neighbouring call sites share cache lines, which beats every hash that was measured
// (docs/decisions). A miss falls to a hash table (polymorphic sites, aliases), then to the cold path,
// which describes function and site in the journal.
//
// One set of tables serves all threads: the GIL orders every access.
//
// Identity is never an address alone: when a code object, or a C callable that is keyed by address,
// dies, every entry that mentions it is erased, so a later object at that address is interned afresh.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "record/frames.h"
#include "store/format.h"

namespace frametap {

// Site 0 in the tables: this call is not to be recorded (a generator's creation on 3.11).
inline constexpr uint32_t kSkipSite = 0;
inline constexpr uint32_t kUnknownSite = format::kFirstSite;

// Low bits of a caller's instruction (which is even): what kind of entry this is.
inline constexpr uintptr_t kResumeKey = 1;

// 48-bit instruction + 44-bit callee (16-byte units: objects do not overlap) + 32-bit id.
struct SiteEntry {
  uint64_t w0 = 0, w1 = 0;
  bool holds(uintptr_t ip, uintptr_t callee) const {
    return ((w0 >> 16) == (ip & 0xffff'ffff'ffffu)) & ((w1 >> 20) == (callee >> 4));
  }
  uint32_t id() const { return uint32_t(w0 & 0xffff) | uint32_t(w1 & 0xffff) << 16; }
  void set(uintptr_t ip, uintptr_t callee, uint32_t id) {
    w0 = uint64_t(ip) << 16 | (id & 0xffff);
    w1 = uint64_t(callee >> 4) << 20 | id >> 16;
  }
  bool empty() const { return w1 == 0; }
};

// What is known about a callee that was seen: hung on code objects as their extra, and kept in a
// map for C callables.
struct Callee {
  uint32_t function = 0;   // id in the journal, 0: not yet in this session
  uint32_t session = 0;    // the session that `function` belongs to
  bool internal = false;   // frametap's own code
  std::vector<std::pair<uintptr_t, uintptr_t>> pairs;  // entries that mention it (instruction, callee)
};

class Sites {
 public:
  static constexpr unsigned kDirectBits = 18;

  // Before the first session: reserves the code-extra slot and the direct table. False: no memory.
  bool set_up();
  // A new session numbers its functions and sites from the start.
  void begin_session(std::string package_folder);

  // Hot: the id for (ip, callee), or a miss.
  bool find(uintptr_t ip, uintptr_t callee, uint32_t& id) const {
    const SiteEntry& e = direct_[(ip >> 4) & ((1u << kDirectBits) - 1)];
    id = e.id();
    return e.holds(ip, callee);
  }

  // After a miss, for a Python callee: `frame` runs `code`, called by `caller` (may be null).
  uint32_t python_site(uintptr_t ip, PyCodeObject* code, const Frame* frame, Frame* caller);
  // For a frame that runs already. Hidden: it is not the program's.
  uint32_t running_site(PyCodeObject* code, const Frame* frame, Frame* caller, bool hidden);
  // Code of frametap's command line, under which a program runs.
  bool is_launcher(const PyCodeObject* code) const;
  // After a miss, for a C callable, called by `caller` at lasti. `callee` is its key (c_callable_key).
  uint32_t c_site(uintptr_t ip, uintptr_t callee, PyObject* callable, PyObject* arg0, Frame* caller, int lasti);
  // A garbage collection of a generation, as a call.
  uint32_t gc_site(int generation, Frame* caller);
  // A name for marks.
  uint32_t name_id(PyObject* name);

  // Called when a code object or a watched C callable dies.
  void forget(Callee& callee);
  void forget_c(uintptr_t key);

 private:
  uint32_t lookup_slow(uintptr_t ip, uintptr_t callee) const;
  void insert(uintptr_t ip, uintptr_t callee, uint32_t id);
  void erase(uintptr_t ip, uintptr_t callee);
  void grow();
  Callee* python_callee(PyCodeObject* code, const Frame* frame);
  Callee* c_callee(uintptr_t key, PyObject* callable, PyObject* arg0);
  uint32_t intern(uint32_t function, uint32_t caller, int line, uint32_t flags);
  void flush();

  SiteEntry* direct_ = nullptr;
  std::vector<SiteEntry> hashed_;
  size_t hashed_used_ = 0;
  std::unordered_map<uintptr_t, Callee> c_callees_;
  std::unordered_map<uint64_t, std::unordered_map<uint64_t, uint32_t>> sites_;
  std::unordered_map<std::string, uint32_t> names_;
  uint32_t session_ = 0;
  uint32_t next_function_ = 1;
  uint32_t next_site_ = format::kFirstSite;
  uint32_t gc_functions_[3] = {0, 0, 0};
  std::string package_folder_;
  std::string pending_;  // journal lines of the intern in progress
};

extern Sites g_sites;

// The address by which a C callable is known: its method definition where there is one, its type for
// instances (pinning an instance would change what the program's weak references see), else itself.
uintptr_t c_callable_key(PyObject* callable);
// True for Python functions and methods of them: their frame speaks for itself.
bool is_python_callable(PyObject* callable);

}  // namespace frametap
