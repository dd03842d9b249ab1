// Events of one thread -> spans, as columns.
//
// In: the thread's segments, whole and in sequence order (`feed`); a clock that maps ticks to
// nanoseconds; what is known of each call site. Out: per stack (the thread's own, and one per
// greenlet) the columns of its calls, in start order; marks; resumes of generators; losses.
//
// Invariant, on ANY words: on every track spans nest (no crossing, children inside parents), no
// duration and no self time is negative. It holds because the clock never runs backwards here, and
// because a call is only ever closed together with everything open above it.
// tests/replay/test_any_input.py and fuzz/ hold it.
//
// Not for two threads at once. Knows no Python: module.cpp hands the columns out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "store/format.h"

namespace frametap::replay {

// As frametap.table.schema.Outcome and CallFlag: tests/replay/test_constants.py compares them.
enum class Outcome : uint8_t { kReturned = 0, kRaised = 1, kYielded = 2, kUnfinished = 3 };
enum CallFlag : uint8_t {
  kBegunBefore = 1,
  kStartGuessed = 2,
  kEndGuessed = 4,
  kCut = 8,
  kIsResume = 16,
  kFirstResume = 32,
};

// What `Replayer` must know of a call site: bits of one byte, by site id.
enum SiteClass : uint8_t {
  kSiteKnown = 1,   // it was described; without this an exit of either kind closes it
  kSiteC = 2,       // a C call or a collection: closed by kCReturn, kCRaise
  kSiteHidden = 4,  // frametap's own frame: takes part in the stack, gives no row
};

// Index into Replayer::losses(). Below kMaxLossKinds: a format::LossKind that the recorder told of
// in this thread's events. From there on: what replay itself found.
enum FoundLoss : uint8_t {
  kFoundUnmatchedExit = format::kMaxLossKinds,  // exits while nothing they could end was open
  kFoundGoneUnseen,      // calls open when their greenlet or thread ended
  kFoundRepairedExit,    // C calls without an exit, ended together with the Python call around them
  kFoundClockBackwards,  // times the clock ran backwards; it was held instead
  kFoundDamage,          // events that could not be read
  kFoundUnknownSite,     // calls of a site that was never described
  kLossSlots,
};

struct Loss {
  uint64_t count = 0;
  int64_t first_ns = -1;
  int64_t last_ns = -1;
};

// A growing array of plain values. Grown with realloc, which for large blocks moves pages instead
// of copying them: a capture with one long thread never exists twice in memory.
template <class T>
class Column {
 public:
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  void resize(size_t capacity) {
    void* p = std::realloc(data_.get(), (capacity ? capacity : 1) * sizeof(T));
    if (!p) throw std::bad_alloc();
    (void)data_.release();
    data_.reset(static_cast<T*>(p));
  }
  // The array, to be freed with std::free.
  T* release() { return data_.release(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
};

// The calls of one stack. `parent` is a row of the same track, -1 for none.
struct Calls {
  size_t n_rows = 0;
  Column<uint32_t> site;
  Column<int64_t> start_ns;
  Column<int64_t> duration_ns;  // valid once the call is closed: `finish` closes all
  Column<int64_t> self_ns;
  Column<int64_t> parent;
  Column<uint32_t> depth;
  Column<uint8_t> outcome;
  Column<uint8_t> flags;

  void grow();
  void trim();

 private:
  size_t capacity_ = 0;
  void resize(size_t capacity);
  friend class Replayer;
};

// One resume of a generator. Instances get their numbers later, when all threads of the process
// are known: a generator may go on in another thread, and an address may be used again.
struct Resumes {
  std::vector<uint64_t> address;
  std::vector<uint8_t> is_first;
  std::vector<int64_t> time_ns;
  std::vector<uint32_t> site;
  std::vector<uint32_t> track;
  std::vector<int64_t> row;
};

enum class MarkKind : uint8_t { kSpanBegin = 0, kSpanEnd = 1, kInstant = 2, kCounter = 3 };
struct Marks {
  std::vector<uint8_t> kind;
  std::vector<uint32_t> track;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> name;   // 0 for span ends
  std::vector<uint64_t> value;  // serial of a span; bits of a counter's double; 0 for instants
};

// Ticks -> ns: straight lines between knots, `ns_per_tick` after the last, the first knot's ns
// before it. Knots are sorted by both; results lie in 0 .. kMaxNs, so that differences always fit.
class ClockMap {
 public:
  static constexpr int64_t kMaxNs = int64_t{1} << 62;

  ClockMap(std::span<const uint64_t> ticks, std::span<const int64_t> ns, double ns_per_tick);
  uint64_t first_tick() const { return knots_.front().tick; }
  // For ticks that never decrease from call to call.
  int64_t to_ns(uint64_t tick) {
    while (tick >= knots_[at_].end_tick && at_ + 1 < knots_.size()) ++at_;
    const Knot& k = knots_[at_];
    if (tick <= k.tick) return k.ns;
    auto ns = static_cast<unsigned __int128>(tick - k.tick) * k.rate >> kRateBits;
    auto room = static_cast<uint64_t>(k.max_ns - k.ns);
    return k.ns + static_cast<int64_t>(ns < room ? static_cast<uint64_t>(ns) : room);
  }

 private:
  static constexpr int kRateBits = 48;
  struct Knot {
    uint64_t tick, end_tick;
    int64_t ns, max_ns;
    uint64_t rate;  // ns per tick << kRateBits
  };
  std::vector<Knot> knots_;
  size_t at_ = 0;
};

class Replayer {
 public:
  // A call that is open. `row` and `depth` are what its children refer to: for a hidden frame those
  // of the nearest visible call around it.
  struct Frame {
    int64_t row;
    uint32_t depth;  // its children's
    uint8_t site_class;
  };
  struct Track {
    explicit Track(uint32_t stack) : stack(stack) {}

    uint32_t stack;
    Calls calls;
    std::vector<Frame> open;
    size_t n_python = 0;  // open calls that kReturn can end: not of class C
    bool in_use = false;  // is listed in used_tracks_
  };

  // `site_classes`: SiteClass bits by site id; ids past its end are unknown sites.
  Replayer(std::vector<uint8_t> site_classes, ClockMap clock);
  Replayer(const Replayer&) = delete;
  Replayer& operator=(const Replayer&) = delete;

  // One whole segment. Words from the first zero id on are not read.
  void feed(const uint64_t* words, size_t n, uint64_t segment_tick);
  // Segments are missing before the one that begins at `tick`: what was open ended unseen.
  void missing(uint64_t tick);
  // No more input: what is still open is cut off at the last tick seen. May be called again.
  void finish();

  bool finished() const { return finished_; }
  std::vector<Track>& tracks() { return tracks_; }
  Resumes& resumes() { return resumes_; }
  Marks& marks() { return marks_; }
  const Loss* losses() const { return losses_; }
  int64_t first_ns() const { return first_ns_; }  // -1: nothing was fed
  int64_t last_ns() const { return now_ns_; }

 private:
  void set_tick(uint64_t tick);
  void advance(uint64_t tick) {
    tick_ = tick;
    if (tick <= now_tick_) return;
    now_tick_ = tick;
    now_ns_ = clock_.to_ns(tick);
  }
  void enter(uint32_t id, uint8_t flags, const uint64_t* payload);
  void close_top(Track& track, Outcome outcome, uint8_t flags);
  void exit_python(Outcome outcome);
  void exit_c(Outcome outcome);
  void close_all(uint8_t flags, int found);
  void close_stack(Track& track, uint8_t flags, int found);
  size_t record(const uint64_t* head, size_t n_left);
  void enter_running(uint64_t site, uint8_t flags, const uint64_t* words, size_t n_words);
  static bool is_loss_unless_exit_seen(const Track& track);
  void gone(uint64_t n);
  void switch_to(uint64_t stack);
  void mark(MarkKind kind, uint64_t name, uint64_t value);
  void lose(int slot, uint64_t count = 1);
  void gap(uint64_t kind, bool begins);

  std::vector<uint8_t> site_classes_;
  ClockMap clock_;
  uint64_t tick_;      // the thread's clock as written
  uint64_t now_tick_;  // the same, never running backwards
  int64_t now_ns_;
  int64_t first_ns_ = -1;
  bool finished_ = false;

  std::vector<Track> tracks_;
  std::unordered_map<uint32_t, uint32_t> track_of_stack_;
  std::vector<uint32_t> used_tracks_;  // those that had a call open since all were closed
  uint32_t current_ = 0;

  Resumes resumes_;
  Marks marks_;
  Loss losses_[kLossSlots];
  uint32_t open_gaps_ = 0;  // bits: LossKind
};

}  // namespace frametap::replay
