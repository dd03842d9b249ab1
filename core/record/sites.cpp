#include "record/sites.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "record/describe.h"
#include "record/tap.h"

namespace frametap {

using format::LossKind;

namespace {

Py_ssize_t g_code_extra = -1;

Callee* code_callee(PyCodeObject* code) {
  void* extra = nullptr;
#if PY_VERSION_HEX >= 0x030c0000
  PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), g_code_extra, &extra);
#else
  _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), g_code_extra, &extra);
#endif
  return static_cast<Callee*>(extra);
}

bool set_code_callee(PyCodeObject* code, Callee* callee) {
#if PY_VERSION_HEX >= 0x030c0000
  int rc = PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), g_code_extra, callee);
#else
  int rc = _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), g_code_extra, callee);
#endif
  if (rc != 0) PyErr_Clear();
  return rc == 0;
}

// CPython calls this when a code object dies.
void code_died(void* extra) {
  if (!extra) return;
  auto* callee = static_cast<Callee*>(extra);
  g_sites.forget(*callee);
  delete callee;
}

uint64_t hash_pair(uintptr_t ip, uintptr_t callee) {
  return (uint64_t(ip) * 0x9E3779B97F4A7C15ull) ^ (uint64_t(callee >> 4) * 0xC2B2AE3D27D4EB4Full);
}

// A place that was erased from the hash table: matches nothing, ends no search.
constexpr uint64_t kErased = ~uint64_t(0);

// The cold path runs in the middle of the program's calls: an exception that is set stays set.
struct KeepException {
#if PY_VERSION_HEX >= 0x030c0000
  PyObject* value = PyErr_GetRaisedException();
  ~KeepException() { PyErr_SetRaisedException(value); }
#else
  PyObject *type, *value, *traceback;
  KeepException() { PyErr_Fetch(&type, &value, &traceback); }
  ~KeepException() { PyErr_Restore(type, value, traceback); }
#endif
};

// Flags of a site in the journal.
constexpr uint32_t kResumeFlag = 1;  // the entry of a generator's resume
constexpr uint32_t kHiddenFlag = 2;  // not the program's: what launched frametap's command line

constexpr int kGeneratorFlags = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

}  // namespace

Sites g_sites;
alignas(4096) SiteEntry Sites::direct_[1u << Sites::kDirectBits];

bool Sites::set_up() {
  if (is_set_up_) return true;
  if (!set_up_descriptions()) return false;
#if PY_VERSION_HEX >= 0x030c0000
  g_code_extra = PyUnstable_Eval_RequestCodeExtraIndex(code_died);
#else
  g_code_extra = _PyEval_RequestCodeExtraIndex(code_died);
#endif
  if (g_code_extra < 0) return false;
  is_set_up_ = true;
  return true;
}

void Sites::begin_session(std::string package_folder) {
  package_folder_ = std::move(package_folder);
  session_++;
  next_function_ = 1;
  next_site_ = format::kFirstSite;
  memset(gc_functions_, 0, sizeof gc_functions_);
  sites_.clear();
  names_.clear();
  hashed_.assign(1 << 12, SiteEntry{0, 0});
  hashed_used_ = 0;
  // Back to zero pages.
  if (madvise(direct_, sizeof direct_, MADV_DONTNEED) != 0) memset(static_cast<void*>(direct_), 0, sizeof direct_);
  pending_ = R"(["function",)" + std::to_string(next_function_) +
             R"(,"python","<not described>","","",-1,0])"
             "\n";
  pending_ += R"(["site",)" + std::to_string(kUnknownSite) + "," + std::to_string(next_function_) + ",0,-1,0]\n";
  next_function_++;
  next_site_ = kUnknownSite + 1;
  flush();
}

void Sites::flush() {
  if (!pending_.empty() && !g_journal.write(pending_)) g_events.count_loss(LossKind::kJournal);
  pending_.clear();
}

// ---- the tables -------------------------------------------------------------------------------

uint32_t Sites::lookup_slow(uintptr_t ip, uintptr_t callee) const {
  size_t mask = hashed_.size() - 1;
  for (size_t i = hash_pair(ip, callee) >> 32 & mask;; i = (i + 1) & mask) {
    const SiteEntry& e = hashed_[i];
    if (e.holds(ip, callee) && e.w0 != kErased) return e.id() + 1;
    if (e.empty()) return 0;
  }
}

void Sites::grow() {
  std::vector<SiteEntry> old(hashed_.size() * 2);
  old.swap(hashed_);
  hashed_used_ = 0;
  size_t mask = hashed_.size() - 1;
  for (const SiteEntry& e : old) {
    if (e.empty() || e.w0 == kErased) continue;
    uintptr_t ip = e.w0 >> 16, callee = (e.w1 >> 20) << 4;
    size_t i = hash_pair(ip, callee) >> 32 & mask;
    while (!hashed_[i].empty()) i = (i + 1) & mask;
    hashed_[i] = e;
    hashed_used_++;
  }
}

void Sites::insert(uintptr_t ip, uintptr_t callee, uint32_t id) {
  if (hashed_used_ * 2 >= hashed_.size()) grow();
  size_t mask = hashed_.size() - 1;
  size_t i = hash_pair(ip, callee) >> 32 & mask;
  while (!hashed_[i].empty()) i = (i + 1) & mask;
  hashed_[i].set(ip, callee, id);
  hashed_used_++;
  SiteEntry& d = direct(ip);
  if (d.empty()) d.set(ip, callee, id);
}

void Sites::erase(uintptr_t ip, uintptr_t callee) {
  SiteEntry& d = direct(ip);
  if (d.holds(ip, callee)) d = SiteEntry{0, 0};
  size_t mask = hashed_.size() - 1;
  for (size_t i = hash_pair(ip, callee) >> 32 & mask; !hashed_[i].empty(); i = (i + 1) & mask) {
    if (hashed_[i].holds(ip, callee) && hashed_[i].w0 != kErased) {
      hashed_[i].w0 = hashed_[i].w1 = kErased;
      return;
    }
  }
}

void Sites::forget(Callee& callee) {
  if (callee.session != session_) return;
  for (auto [ip, address] : callee.pairs) erase(ip, address);
  callee.pairs.clear();
  callee.pairs.shrink_to_fit();
}

void Sites::forget_c(uintptr_t key) {
  auto it = c_callees_.find(key);
  if (it == c_callees_.end()) return;
  forget(it->second);
  c_callees_.erase(it);
}

// One journal site per (function, caller, line, flags): two instructions of one line, or 3.12's two
// instruction addresses of one call, are one call site.
uint32_t Sites::intern(uint32_t function, uint32_t caller, int line, uint32_t flags) {
  uint64_t who = uint64_t(caller) << 32 | function;
  uint64_t where = uint64_t(uint32_t(line)) << 8 | flags;
  uint32_t& id = sites_[who][where];
  if (id == 0) {
    if (next_site_ >= format::kSiteMask) {
      g_events.count_loss(LossKind::kTableFull);
      return kUnknownSite;
    }
    id = next_site_++;
    char text[128];
    snprintf(text, sizeof text, "[\"site\",%u,%u,%u,%d,%u]\n", id, function, caller, line, flags);
    pending_ += text;
  }
  return id;
}

// ---- describing -------------------------------------------------------------------------------

Callee* Sites::python_callee(PyCodeObject* code, const Frame* frame) {
  Callee* callee = code_callee(code);
  if (!callee) {
    callee = new Callee;
    if (!set_code_callee(code, callee)) {
      delete callee;
      g_events.count_loss(LossKind::kTableFull);
      return nullptr;
    }
    callee->internal = path_in_folder(code->co_filename, package_folder_);
  }
  if (callee->session != session_) {
    callee->session = session_;
    callee->pairs.clear();
    callee->function = next_function_++;
    describe_python_function(pending_, callee->function, code, frame, callee->internal);
  }
  return callee;
}

uint32_t Sites::python_site(uintptr_t ip, PyCodeObject* code, const Frame* frame, Frame* caller) {
  if (uint32_t found = lookup_slow(ip, uintptr_t(code))) return found - 1;
  KeepException keep;
  Callee* callee = python_callee(code, frame);
  if (!callee) return kUnknownSite;
  uint32_t id;
  bool resume = owned_by_generator(frame);
  PyCodeObject* caller_code = caller ? frame_code(caller) : nullptr;
  Callee* calling = caller ? python_callee(caller_code, caller) : nullptr;
  if (!resume && (code->co_flags & kGeneratorFlags)) {
    // 3.11: the short frame that only makes the generator object. A call is a resume.
    id = kSkipSite;
  } else {
    int line = caller ? code_line(caller_code, frame_lasti_bytes(caller, caller_code)) : -1;
    id = intern(callee->function, calling ? calling->function : 0, line, resume ? kResumeFlag : 0);
    if (resume) id |= format::kResumeBit;
  }
  flush();
  insert(ip, uintptr_t(code), id);
  callee->pairs.emplace_back(ip, uintptr_t(code));
  if (calling && calling != callee) calling->pairs.emplace_back(ip, uintptr_t(code));
  return id;
}

bool Sites::is_launcher(const PyCodeObject* code) const {
  return path_in_folder(code->co_filename, package_folder_ + "cli/");
}

uint32_t Sites::running_site(PyCodeObject* code, const Frame* frame, Frame* caller, bool hidden) {
  KeepException keep;
  Callee* callee = python_callee(code, frame);
  if (!callee) return kUnknownSite;
  PyCodeObject* caller_code = caller ? frame_code(caller) : nullptr;
  Callee* calling = caller ? python_callee(caller_code, caller) : nullptr;
  bool resume = owned_by_generator(frame);
  int line = caller ? code_line(caller_code, frame_lasti_bytes(caller, caller_code)) : -1;
  uint32_t flags = (resume ? kResumeFlag : 0) | (hidden ? kHiddenFlag : 0);
  uint32_t id = intern(callee->function, calling ? calling->function : 0, line, flags);
  flush();
  return resume ? id | format::kResumeBit : id;
}

uint32_t Sites::c_site(uintptr_t ip, uintptr_t key, PyObject* callable, PyObject* arg0, Frame* caller, int lasti) {
  if (uint32_t found = lookup_slow(ip, key)) return found - 1;
  KeepException keep;
  PyCodeObject* caller_code = frame_code(caller);
  Callee* calling = python_callee(caller_code, caller);
  auto [it, is_new] = c_callees_.try_emplace(key);
  if (is_new || it->second.session != session_) {
    it->second = Callee{next_function_++, session_, false, {}};
    describe_c_function(pending_, it->second.function, callable, arg0);
  }
  uint32_t function = it->second.function;
  uint32_t id = intern(function, calling ? calling->function : 0, code_line(caller_code, lasti), 0);
  flush();
  insert(ip, key, id);
  it->second.pairs.emplace_back(ip, key);
  if (calling) calling->pairs.emplace_back(ip, key);
  // Last: making a weak reference can run a collection, and with it any code.
  if (is_new) watch_c_callable(key, callable);
  return id;
}

uint32_t Sites::gc_site(int generation, Frame* caller) {
  if (generation < 0 || generation > 2) generation = 2;
  KeepException keep;
  if (gc_functions_[generation] == 0) {
    gc_functions_[generation] = next_function_++;
    char text[96];
    snprintf(text, sizeof text, "[\"function\",%u,\"gc\",\"gc generation %d\",\"gc\",\"\",-1,0]\n",
             gc_functions_[generation], generation);
    pending_ += text;
  }
  PyCodeObject* code = caller ? frame_code(caller) : nullptr;
  Callee* calling = caller ? python_callee(code, caller) : nullptr;
  int line = caller ? code_line(code, frame_lasti_bytes(caller, code)) : -1;
  uint32_t id = intern(gc_functions_[generation], calling ? calling->function : 0, line, 0);
  flush();
  return id;
}

uint32_t Sites::name_id(PyObject* name) {
  std::string text;
  append_json_string(text, name);
  auto [it, is_new] = names_.try_emplace(text, uint32_t(names_.size() + 1));
  if (is_new) {
    pending_ += "[\"name\"," + std::to_string(it->second) + "," + text + "]\n";
    flush();
  }
  return it->second;
}

}  // namespace frametap
