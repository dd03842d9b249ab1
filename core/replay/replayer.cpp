#include "replay/replayer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace frametap::replay {

using namespace format;

namespace {

// Segments may lie at any address of a mapped file.
inline uint64_t load(const uint64_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace

void Calls::resize(size_t capacity) {
  site.resize(capacity);
  start_ns.resize(capacity);
  duration_ns.resize(capacity);
  self_ns.resize(capacity);
  parent.resize(capacity);
  depth.resize(capacity);
  outcome.resize(capacity);
  flags.resize(capacity);
  capacity_ = capacity;
}

void Calls::grow() { resize(capacity_ + capacity_ / 2 + 64); }
void Calls::trim() { resize(n_rows); }

ClockMap::ClockMap(std::span<const uint64_t> ticks, std::span<const int64_t> ns, double ns_per_tick) {
  constexpr uint64_t kMaxRate = std::numeric_limits<uint64_t>::max() >> 1;
  size_t n = std::min(ticks.size(), ns.size());
  for (size_t i = 0; i < n; ++i) {
    int64_t value = std::clamp<int64_t>(ns[i], 0, kMaxNs);
    if (!knots_.empty() && (ticks[i] <= knots_.back().tick || value < knots_.back().ns)) continue;
    knots_.push_back({ticks[i], 0, value, kMaxNs, 0});
  }
  if (knots_.empty()) knots_.push_back({0, 0, 0, kMaxNs, 0});
  for (size_t i = 0; i + 1 < knots_.size(); ++i) {
    Knot& k = knots_[i];
    const Knot& next = knots_[i + 1];
    k.end_tick = next.tick;
    k.max_ns = next.ns;
    auto rise = static_cast<unsigned __int128>(static_cast<uint64_t>(next.ns - k.ns)) << kRateBits;
    rise /= next.tick - k.tick;
    k.rate = rise < kMaxRate ? static_cast<uint64_t>(rise) : kMaxRate;
  }
  double rate = std::ldexp(ns_per_tick, kRateBits);
  Knot& last = knots_.back();
  last.end_tick = std::numeric_limits<uint64_t>::max();
  last.rate = !(rate > 0) ? 0 : rate < static_cast<double>(kMaxRate) ? static_cast<uint64_t>(rate) : kMaxRate;
}

Replayer::Replayer(std::vector<uint8_t> site_classes, ClockMap clock)
    : site_classes_(std::move(site_classes)),
      clock_(std::move(clock)),
      tick_(clock_.first_tick()),
      now_tick_(tick_),
      now_ns_(clock_.to_ns(tick_)) {
  tracks_.emplace_back(0);
  track_of_stack_.emplace(0, 0);
}

void Replayer::lose(int slot, uint64_t count) {
  if (count == 0) return;
  Loss& loss = losses_[slot];
  if (loss.count == 0) loss.first_ns = now_ns_;
  loss.last_ns = now_ns_;
  loss.count = std::min(loss.count + count, uint64_t{1} << 62);
}

// A full tick. Behind the clock it is held there until the deltas have caught up.
void Replayer::set_tick(uint64_t tick) {
  if (tick < now_tick_) lose(kFoundClockBackwards);
  advance(tick);
}

void Replayer::enter(uint32_t id, uint8_t flags, const uint64_t* payload) {
  uint32_t site = id & kSiteMask;
  uint8_t site_class = site < site_classes_.size() ? site_classes_[site] : 0;
  Track& track = tracks_[current_];
  Calls& calls = track.calls;
  int64_t parent = -1;
  uint32_t depth = 0;
  if (track.open.empty()) {
    if (!track.in_use) {
      track.in_use = true;
      used_tracks_.push_back(current_);
    }
  } else {
    parent = track.open.back().row;
    depth = track.open.back().depth;
  }
  if (site_class & kSiteHidden) {
    track.open.push_back({parent, depth, site_class});
    if (!(site_class & kSiteC)) ++track.n_python;
    return;
  }
  if (!(site_class & kSiteKnown)) lose(kFoundUnknownSite);
  if (calls.n_rows == calls.capacity_) calls.grow();
  size_t row = calls.n_rows++;
  if (id & kResumeBit) {
    flags |= kIsResume;
    if (payload) {
      uint64_t word = load(payload);
      if (word & 1) flags |= kFirstResume;
      resumes_.address.push_back(word >> 1);
      resumes_.is_first.push_back(word & 1);
      resumes_.time_ns.push_back(now_ns_);
      resumes_.site.push_back(site);
      resumes_.track.push_back(current_);
      resumes_.row.push_back(static_cast<int64_t>(row));
    }
  }
  calls.site[row] = site;
  calls.start_ns[row] = now_ns_;
  calls.self_ns[row] = 0;  // minus its children's durations until it is closed
  calls.parent[row] = parent;
  calls.depth[row] = depth;
  calls.flags[row] = flags;
  uint32_t below = depth < std::numeric_limits<uint32_t>::max() ? depth + 1 : depth;
  track.open.push_back({static_cast<int64_t>(row), below, site_class});
  if (!(site_class & kSiteC)) ++track.n_python;
}

void Replayer::close_top(Track& track, Outcome outcome, uint8_t flags) {
  Frame frame = track.open.back();
  track.open.pop_back();
  if (!(frame.site_class & kSiteC)) --track.n_python;
  if (frame.site_class & kSiteHidden) return;  // its own time stays with the call around it
  Calls& calls = track.calls;
  auto row = static_cast<size_t>(frame.row);
  int64_t duration = now_ns_ - calls.start_ns[row];
  calls.duration_ns[row] = duration;
  calls.self_ns[row] += duration;
  calls.outcome[row] = static_cast<uint8_t>(outcome);
  if (flags) calls.flags[row] |= flags;
  int64_t parent = calls.parent[row];
  if (parent >= 0) calls.self_ns[static_cast<size_t>(parent)] -= duration;
}

void Replayer::exit_python(Outcome outcome) {
  Track& track = tracks_[current_];
  if (track.n_python == 0) return lose(kFoundUnmatchedExit);
  while (track.open.back().site_class & kSiteC) {
    if (!(track.open.back().site_class & kSiteHidden)) lose(kFoundRepairedExit);
    close_top(track, Outcome::kUnfinished, kEndGuessed);
  }
  close_top(track, outcome, 0);
}

void Replayer::exit_c(Outcome outcome) {
  Track& track = tracks_[current_];
  // A site that was never described may well be a C call: then this is its exit.
  if (track.open.empty() || (track.open.back().site_class & (kSiteKnown | kSiteC)) == kSiteKnown)
    return lose(kFoundUnmatchedExit);
  close_top(track, outcome, 0);
}

// Of a frame that ran before recording started, 3.11 cannot see the exit: its end is marked as
// guessed, but nothing was lost. Hidden calls are not shown at all.
bool Replayer::is_loss_unless_exit_seen(const Track& track) {
  const Frame& frame = track.open.back();
  if (frame.site_class & kSiteHidden) return false;
  return !(track.calls.flags[static_cast<size_t>(frame.row)] & kBegunBefore);
}

// `found`: what to count for each call that is lost so, -1 for nothing.
void Replayer::close_stack(Track& track, uint8_t flags, int found) {
  while (!track.open.empty()) {
    if (found >= 0 && is_loss_unless_exit_seen(track)) lose(found);
    close_top(track, Outcome::kUnfinished, flags);
  }
}

void Replayer::close_all(uint8_t flags, int found) {
  for (uint32_t i : used_tracks_) {
    close_stack(tracks_[i], flags, found);
    tracks_[i].in_use = false;
  }
  used_tracks_.clear();
}

void Replayer::gone(uint64_t n) {
  Track& track = tracks_[current_];
  uint64_t closed = std::min<uint64_t>(n, track.open.size());
  if (n > closed) lose(kFoundUnmatchedExit);
  for (uint64_t i = 0; i < closed; ++i) {
    if (is_loss_unless_exit_seen(track)) lose(static_cast<int>(LossKind::kGoneUnseen));
    close_top(track, Outcome::kUnfinished, kEndGuessed);
  }
}

void Replayer::enter_running(uint64_t site, uint8_t flags, const uint64_t* words, size_t n_words) {
  if (site > std::numeric_limits<uint32_t>::max()) return lose(kFoundDamage);
  auto id = static_cast<uint32_t>(site);
  bool resume = id & kResumeBit;
  if (resume && n_words == 0) lose(kFoundDamage);
  enter(id, flags, resume && n_words > 0 ? words : nullptr);
}

void Replayer::switch_to(uint64_t stack) {
  if (stack > std::numeric_limits<uint32_t>::max()) return lose(kFoundDamage);
  auto [at, is_new] = track_of_stack_.try_emplace(static_cast<uint32_t>(stack), static_cast<uint32_t>(tracks_.size()));
  if (is_new) {
    tracks_.emplace_back(static_cast<uint32_t>(stack));
  }
  current_ = at->second;
}

void Replayer::mark(MarkKind kind, uint64_t name, uint64_t value) {
  marks_.kind.push_back(static_cast<uint8_t>(kind));
  marks_.track.push_back(current_);
  marks_.time_ns.push_back(now_ns_);
  marks_.name.push_back(name);
  marks_.value.push_back(value);
}

void Replayer::gap(uint64_t kind, bool begins) {
  if (kind >= kMaxLossKinds) return lose(kFoundDamage);
  int slot = static_cast<int>(kind);
  uint32_t bit = uint32_t{1} << kind;
  if (begins) {
    lose(slot);
    open_gaps_ |= bit;
  } else {
    if (losses_[slot].count == 0) lose(slot);
    losses_[slot].last_ns = now_ns_;
    open_gaps_ &= ~bit;
  }
}

// The record whose head word is at `head`. Returns how many words it takes, head included; n_left
// (all there are) if it is cut.
size_t Replayer::record(const uint64_t* head, size_t n_left) {
  if (n_left == 0) {
    lose(kFoundDamage);
    return 0;
  }
  uint64_t word = load(head);
  uint64_t arg = word >> 16;
  size_t n_words = word >> 8 & 0xff;
  const uint64_t* words = head + 1;
  if (n_words >= n_left) {
    lose(kFoundDamage);
    return n_left;
  }
  switch (static_cast<RecordKind>(word & 0xff)) {
    case RecordKind::kArm:
    case RecordKind::kDisarm: close_all(kCut, -1); break;
    case RecordKind::kBefore: enter_running(arg, kBegunBefore, words, n_words); break;
    case RecordKind::kMissed:
      lose(static_cast<int>(LossKind::kMissedEntry));
      enter_running(arg, kStartGuessed, words, n_words);
      break;
    case RecordKind::kGone: gone(arg); break;
    case RecordKind::kSwitch: switch_to(arg); break;
    case RecordKind::kStackEnd: {
      auto at = arg > std::numeric_limits<uint32_t>::max() ? track_of_stack_.end()
                                                           : track_of_stack_.find(static_cast<uint32_t>(arg));
      if (at != track_of_stack_.end()) close_stack(tracks_[at->second], kEndGuessed, kFoundGoneUnseen);
      break;
    }
    case RecordKind::kThreadEnd: close_all(kEndGuessed, kFoundGoneUnseen); break;
    case RecordKind::kSpanBegin:
    case RecordKind::kSpanEnd:
    case RecordKind::kCounter: {
      if (n_words == 0) {
        lose(kFoundDamage);
        break;
      }
      auto kind = static_cast<RecordKind>(word & 0xff);
      uint64_t value = load(words);
      if (kind == RecordKind::kSpanBegin)
        mark(MarkKind::kSpanBegin, arg, value);
      else if (kind == RecordKind::kSpanEnd)
        mark(MarkKind::kSpanEnd, 0, value);
      else
        mark(MarkKind::kCounter, arg, value);
      break;
    }
    case RecordKind::kInstant: mark(MarkKind::kInstant, arg, 0); break;
    case RecordKind::kGapBegin: gap(arg, true); break;
    case RecordKind::kGapEnd: gap(arg, false); break;
    case RecordKind::kLost: lose(static_cast<int>(LossKind::kDroppedEvents), arg); break;
    case RecordKind::kSpurious: lose(static_cast<int>(LossKind::kUnmatchedExit), arg); break;
    default: lose(kFoundDamage); break;
  }
  return 1 + n_words;
}

void Replayer::feed(const uint64_t* words, size_t n, uint64_t segment_tick) {
  if (n == 0) return;
  set_tick(segment_tick);
  if (first_ns_ < 0) first_ns_ = now_ns_;
  size_t i = 0;
  while (i < n) {
    uint64_t word = load(words + i);
    auto id = static_cast<uint32_t>(word);
    if (id == kNothing) {
      // Prepared but not written, up to the end; anything else there cannot be trusted.
      for (; i < n; ++i) {
        if (load(words + i) == 0) continue;
        lose(kFoundDamage);
        break;
      }
      return;
    }
    ++i;
    uint64_t tick = tick_ + (word >> 32);
    if (tick >= tick_)
      advance(tick);
    else
      lose(kFoundClockBackwards);  // past the largest tick there is
    if (id >= kFirstSite && !(id & kResumeBit)) {
      enter(id, 0, nullptr);
      continue;
    }
    if (id & kResumeBit) {
      if (i == n) lose(kFoundDamage);
      enter(id, 0, i < n ? words + i : nullptr);
      if (i < n) ++i;
      continue;
    }
    switch (id) {
      case kReturn: exit_python(Outcome::kReturned); break;
      case kRaise: exit_python(Outcome::kRaised); break;
      case kYield: exit_python(Outcome::kYielded); break;
      case kCReturn: exit_c(Outcome::kReturned); break;
      case kCRaise: exit_c(Outcome::kRaised); break;
      case kSync:
        if (i == n) {
          lose(kFoundDamage);
          break;
        }
        set_tick(load(words + i++));
        break;
      case kRecord: i += record(words + i, n - i); break;
      default: lose(kFoundDamage); break;
    }
  }
}

void Replayer::missing(uint64_t tick) {
  set_tick(tick);
  close_all(kEndGuessed, kFoundGoneUnseen);
}

void Replayer::finish() {
  if (finished_) return;
  finished_ = true;
  close_all(kCut, -1);
  for (size_t kind = 0; kind < kMaxLossKinds; ++kind)
    if (open_gaps_ >> kind & 1) losses_[kind].last_ns = now_ns_;
  for (Track& track : tracks_) track.calls.trim();
}

}  // namespace frametap::replay
