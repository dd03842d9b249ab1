// The only definition of frametap's event bits and spool bytes.
//
// docs/format.md draws the same layout for people; tests/store/test_format_doc.py
// holds the two together. Everything is little-endian; a word is 64 bits.
//
// A process writes one `events.bin`: a header page, then chunks. A chunk holds one or more
// segments; a segment is a run of words written by one thread. Words are only ever appended
// and a word of zero is "nothing was written here", so a killed process leaves a readable file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace frametap::format {

// Raised when a reader of the older version could misread the newer file.
inline constexpr uint32_t kFormatVersion = 1;

// ---- events ---------------------------------------------------------------------------------
// word = delta << 32 | id
//   delta  ticks since the previous event of this thread (0 right after a segment's start or SYNC
//          means "at that tick")
//   id     0 nothing · 1..15 control (below) · 16.. a call site entered
// An id with kResumeBit is the entry of a generator, coroutine or async generator; ONE payload word
// follows it: generator address << 1 | 1 if this is the instance's first resume.
inline constexpr uint32_t kNothing = 0;
inline constexpr uint32_t kReturn = 1;    // the innermost open Python call returned
inline constexpr uint32_t kRaise = 2;     // … was left by an exception
inline constexpr uint32_t kYield = 3;     // … (a resume) yielded or awaited
inline constexpr uint32_t kCReturn = 4;   // the innermost open C call (or collection) returned
inline constexpr uint32_t kCRaise = 5;    // … raised
inline constexpr uint32_t kSync = 6;      // one payload word: the full tick
inline constexpr uint32_t kRecord = 7;    // payload: a record head word, then its words
inline constexpr uint32_t kFirstSite = 16;
inline constexpr uint32_t kResumeBit = 0x80000000u;
inline constexpr uint32_t kSiteMask = 0x7fffffffu;

// ---- records --------------------------------------------------------------------------------
// head word = arg << 16 | n_words << 8 | kind ; n_words more words follow.
enum class RecordKind : uint8_t {
  kArm = 1,        // recording starts on this thread (start or resume); open stack is empty
  kDisarm = 2,     // recording stops (stop, pause, end of process): everything open ends here
  kBefore = 3,     // arg = site: this frame was already running; it opens now, begun earlier.
                   //   word 1, only if site has kResumeBit: as after a resume
  kMissed = 4,     // arg = site: this frame is running but its entry was not seen; opens now.
                   //   word 1, only if site has kResumeBit: as after a resume
  kGone = 5,       // arg = n: the n innermost open calls ended unseen, at the latest now
  kSwitch = 6,     // arg = stack id: this thread goes on with another stack (greenlet). 0 is the
                   //   thread's own. Open calls of the old stack stay open.
  kStackEnd = 7,   // arg = stack id: that stack is finished; its open calls end here
  kThreadEnd = 8,  // the thread ended
  kSpanBegin = 9,  // arg = name id; word 1 = span serial (unique in the process)
  kSpanEnd = 10,   // word 1 = span serial
  kInstant = 11,   // arg = name id
  kCounter = 12,   // arg = name id; word 1 = value, bits of an IEEE double
  kGapBegin = 13,  // arg = LossKind: from here calls of this thread can be missing
  kGapEnd = 14,    // arg = LossKind
  kLost = 15,      // arg = n events of this thread were dropped just before
  kSpurious = 16,  // arg = 1: an exit was seen for a frame that is not open; it was ignored
};

// ---- losses ---------------------------------------------------------------------------------
// Index of a process-wide counter in FileHeader::losses. Names: docs/format.md and
// frametap.table.losses.
enum class LossKind : uint8_t {
  kDroppedEvents = 0,     // events that found no room (disk full, folder gone, budget reached)
  kHookDisplaced = 1,     // times another tool took our hook away
  kDeepStack = 2,         // times recording paused because the C stack ran short
  kUnmatchedExit = 3,     // exits without an entry, ignored
  kMissedEntry = 4,       // entries inferred from the stack
  kGoneUnseen = 5,        // exits inferred from the stack
  kOtherInterpreter = 6,  // calls seen in a sub-interpreter, not recorded
  kTableFull = 7,         // call sites that could not be interned
  kJournal = 8,           // descriptions (names) that could not be written
  kThreadSetup = 9,       // threads that could not get a recorder
  kForked = 10,           // forks whose child is not recorded
  kCCallsDisplaced = 11,  // times another profiler took the C call events
};
inline constexpr size_t kMaxLossKinds = 32;

// ---- events.bin -----------------------------------------------------------------------------
inline constexpr char kFileMagic[8] = {'F', 'T', 'A', 'P', 'E', 'V', 'T', '1'};
inline constexpr uint32_t kSegmentMagic = 0x47455346;  // "FSEG"
inline constexpr size_t kHeaderBytes = 4096;           // FileHeader, padded: first chunk starts here
inline constexpr size_t kSegmentAlign = 64;            // a segment starts on a multiple of this

enum class ClockKind : uint32_t { kTsc = 1, kArmCounter = 2, kMonotonic = 3 };

struct ClockPair {
  uint64_t tick;
  uint64_t monotonic_ns;  // CLOCK_MONOTONIC, comparable between the processes of one host
  uint64_t wall_ns;       // since 1970-01-01 UTC
};

struct FileHeader {
  char magic[8];
  uint32_t format_version;
  ClockKind clock_kind;
  uint32_t chunk_bytes;   // chunk i lies at kHeaderBytes + i * chunk_bytes
  uint32_t pid;
  ClockPair start;
  ClockPair stop;         // all zero until the process closed the file in order
  uint64_t n_chunks;      // chunks handed out so far; the file can be longer (prepared) or shorter (cut)
  double ticks_per_ns;    // measured when the process started: used when `stop` is missing
  uint64_t losses[kMaxLossKinds];
};
static_assert(sizeof(ClockPair) == 24);
static_assert(sizeof(FileHeader) == 8 + 16 + 48 + 8 + 8 + 8 * kMaxLossKinds);
static_assert(sizeof(FileHeader) <= kHeaderBytes);

// Segments follow one another inside a chunk, each on a multiple of kSegmentAlign, after the room
// (capacity_words) of the one before. Thread 0: room that no thread has taken.
struct SegmentHeader {
  uint32_t magic;         // kSegmentMagic
  uint32_t thread;        // thread life id, from 1, never used again in this process; 0: free
  uint32_t sequence;      // 0, 1, 2 … within the thread
  uint32_t n_words;       // words after this header; 0 while the segment is being written
                          //   (read up to the first zero id or the chunk's end)
  uint64_t tick;          // the thread's clock at the first word: deltas count from here
  uint64_t monotonic_ns;  // taken with `tick`
  uint64_t capacity_words;  // words the segment may take at most
  uint64_t reserved[3];
};
static_assert(sizeof(SegmentHeader) == 64);

}  // namespace frametap::format
