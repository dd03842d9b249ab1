// Repairs of a thread's mirror stack when it does not agree with the interpreter's.
//
// In: a recorder and the frame that must be on top. Out: the mirror agrees, and the stream says how
// it came to: calls that ended unseen, calls that were entered unseen, or another stack (greenlet).
#include <algorithm>
#include <cstring>

#include "record/tap.h"

namespace frametap {

using format::LossKind;
using format::RecordKind;

namespace {

size_t depth(const Recorder* r) { return size_t(r->sp - r->mirror) - 1; }

// Drops the entries above sp: they ended at the latest now. Frames that ran before the start are no
// loss: 3.11 cannot see their return, and their end is marked as guessed.
void drop_above(Recorder* r, MirrorEntry* sp) {
  uint64_t n = uint64_t(r->sp - sp);
  if (n == 0) return;
  MirrorEntry* seen = std::max(sp, r->before_end);
  if (r->sp > seen) g_events.count_loss(LossKind::kGoneUnseen, uint64_t(r->sp - seen));
  r->before_end = std::min(r->before_end, sp);
  r->sp = sp;
  write_record(r, now_ticks(), RecordKind::kGone, n);
}

MirrorEntry* find_in_mirror(Recorder* r, MirrorEntry e, MirrorEntry mask) {
  for (MirrorEntry* s = r->sp; s > r->mirror + 1; s--)
    if ((s[-1] & mask) == e) return s;
  return nullptr;
}

// Asked when a stack seems to have vanished: does a greenlet run instead, or did its last frames
// return unseen (3.11, frames that ran before the start)? No import, no code of the program's.
bool is_in_another_greenlet([[maybe_unused]] const Recorder* r) {
#if PY_VERSION_HEX < 0x030d0000
  if (r->ts->cframe == &r->ts->root_cframe) return false;
#endif
  PyObject* modules = PyImport_GetModuleDict();
  return modules && PyDict_Check(modules) && PyDict_GetItemString(modules, "greenlet._greenlet") != nullptr;
}

MirrorEntry top_of(const ParkedStack& s) { return s.entries.empty() ? 0 : frame_part(s.entries.back()); }

void park_current(Recorder* r) {
  if (depth(r) == 0 && r->stack_id != 0) {
    write_record(r, now_ticks(), RecordKind::kStackEnd, r->stack_id);
    return;
  }
  r->parked.push_back(
      {r->stack_id, size_t(r->before_end - r->mirror) - 1, std::vector<MirrorEntry>(r->mirror + 1, r->sp)});
  r->parked_by_top[top_of(r->parked.back())] = r->parked.size() - 1;
}

void switch_to(Recorder* r, const ParkedStack& s) {
  r->stack_id = s.id;
  r->sp = r->mirror + 1;
  for (MirrorEntry e : s.entries) push(r, e);
  r->before_end = r->mirror + 1 + s.n_before;
  write_record(r, now_ticks(), RecordKind::kSwitch, s.id);
}

void switch_to_parked(Recorder* r, size_t index) {
  ParkedStack s = std::move(r->parked[index]);
  r->parked_by_top.erase(top_of(s));
  if (index + 1 != r->parked.size()) {
    r->parked[index] = std::move(r->parked.back());
    r->parked_by_top[top_of(r->parked[index])] = index;
  }
  r->parked.pop_back();
  park_current(r);
  switch_to(r, s);
}

bool parked_holds(const ParkedStack& s, MirrorEntry e, MirrorEntry mask) {
  return std::any_of(s.entries.begin(), s.entries.end(), [=](MirrorEntry x) { return (x & mask) == e; });
}

// The parked stack that holds a frame, preferably on top.
bool find_parked(Recorder* r, MirrorEntry e, size_t& index) {
  if (r->parked.empty()) return false;
  auto it = r->parked_by_top.find(e);
  if (it != r->parked_by_top.end()) {
    index = it->second;
    return true;
  }
  for (size_t i = 0; i < r->parked.size(); i++) {
    if (parked_holds(r->parked[i], e, ~kTags)) {
      index = i;
      return true;
    }
  }
  return false;
}

}  // namespace

// Opens a frame that runs without its entry having been seen.
void open_running_frame(Recorder* r, Frame* frame, RecordKind kind, bool hidden) {
  Frame* caller = skip_to_caller(frame->previous);
  uint32_t id = g_sites.running_site(frame_code(frame), frame, caller, hidden);
  push(r, entry_of(frame));
  bool payload = id & format::kResumeBit;
  write_record(r, now_ticks(), kind, id, payload ? 1 : 0, uint64_t(uintptr_t(frame)) << 1);
}

void repair_entry(Recorder* r, Frame* caller) {
  // Frames that are linked without running: one whose entry event is still to come, and a generator
  // through which throw() or close() reaches the one it delegates to.
  size_t unused;
  while (caller && frame_part(r->sp[-1]) != entry_of(caller) &&
         (stands_at_resume(caller) || owned_by_generator(caller)) && !find_in_mirror(r, entry_of(caller), ~kTags) &&
         !find_parked(r, entry_of(caller), unused))
    caller = skip_to_caller(caller->previous);
  if (frame_part(r->sp[-1]) == entry_of(caller)) return;
  const MirrorEntry want = entry_of(caller);
  if (caller) {
    if (MirrorEntry* found = find_in_mirror(r, want, ~kTags)) {
      drop_above(r, found);
      return;
    }
    size_t index;
    if (find_parked(r, want, index)) {
      switch_to_parked(r, index);
      if (MirrorEntry* found = find_in_mirror(r, want, ~kTags)) drop_above(r, found);
      return;
    }
  } else if (depth(r) == 0) {
    return;
  }

  // The frames between `caller` and the first one that is known.
  std::vector<Frame*> missed;
  Frame* f = caller;
  size_t parked_index = 0;
  bool in_parked = false;
  MirrorEntry* known = nullptr;
  for (; f; f = skip_to_caller(f->previous)) {
    known = find_in_mirror(r, entry_of(f), ~kTags);
    if (known) break;
    if (find_parked(r, entry_of(f), parked_index)) {
      in_parked = true;
      break;
    }
    missed.push_back(f);
  }
  if (in_parked) {
    switch_to_parked(r, parked_index);
    known = find_in_mirror(r, entry_of(f), ~kTags);
  }
  if (known) {
    drop_above(r, known);
  } else if (depth(r) > 0) {
    // Nothing of this stack is known, and the current one did not end: another greenlet, or a
    // thread that returned to C below frames whose exits we could not see.
    if (is_in_another_greenlet(r)) {
      park_current(r);
      switch_to(r, ParkedStack{r->next_stack_id++, 0, {}});
    } else {
      drop_above(r, r->mirror + 1);
    }
  }
  for (size_t i = missed.size(); i-- > 0;) open_running_frame(r, missed[i], RecordKind::kMissed);
  g_events.count_loss(LossKind::kMissedEntry, missed.size());
}

bool switch_to_stack_with(Recorder* r, MirrorEntry entry) {
  size_t index;
  if (!find_parked(r, frame_part(entry), index)) return false;
  const auto& entries = r->parked[index].entries;
  if (entries.empty() || entries.back() != entry) return false;
  switch_to_parked(r, index);
  return true;
}

bool repair_exit(Recorder* r, Frame* frame) {
  const MirrorEntry want = entry_of(frame);
  if (r->sp[-1] == (want | kQuietTag)) {
    r->sp--;
    return false;
  }
  MirrorEntry* found = find_in_mirror(r, want, ~MirrorEntry(0));
  if (!found) {
    size_t index;
    if (find_parked(r, want, index)) {
      switch_to_parked(r, index);
      found = find_in_mirror(r, want, ~MirrorEntry(0));
    }
  }
  if (!found) {
    write_record(r, now_ticks(), RecordKind::kSpurious, 1);
    g_events.count_loss(LossKind::kUnmatchedExit);
    return false;
  }
  drop_above(r, found);
  return true;
}

}  // namespace frametap
