// The spool: where events and descriptions go while the program runs.
//
// EventsFile hands out segments of a mapped file; a thread writes words into its segment without a
// lock or a system call. Blocks are allocated on disk before a page is touched, so a full disk is an
// error here and never a SIGBUS in the program. A helper thread prepares chunks ahead and unmaps full
// ones, so resident memory stays flat; without it (none can be started, or after a fork) the same
// is done by the caller.
//
// Journal appends lines of JSON. Both keep what was written when the process is killed.
//
// All calls except the helper's own work are made with the GIL held.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "store/format.h"

namespace frametap {

struct Segment {
  format::SegmentHeader* header = nullptr;
  char* begin() const { return reinterpret_cast<char*>(header + 1); }
  char* end() const { return begin() + header->capacity_words * 8; }
  explicit operator bool() const { return header != nullptr; }
};

class EventsFile {
 public:
  // Creates the file; on failure returns an errno and leaves nothing open.
  int open(const std::string& path, double ticks_per_ns);
  // Writes the stop pair, cuts the file to what was handed out, unmaps. Segments must be closed.
  void close();
  // In a forked child: forget everything without touching the parent's file.
  void abandon();
  bool is_open() const { return header_ != nullptr; }

  // A segment of at least `want_bytes` for words of `thread`, or an empty one: no room on disk.
  Segment take(uint32_t thread, uint32_t sequence, uint64_t tick, size_t want_bytes);
  // The words up to `end` are final. What is left becomes a free segment.
  void give_back(Segment segment, char* end);

  void count_loss(format::LossKind kind, uint64_t n = 1) {
    if (header_) header_->losses[size_t(kind)] += n;
  }
  uint64_t losses(format::LossKind kind) const { return header_ ? header_->losses[size_t(kind)] : 0; }

  // Around fork: the helper must not exist then (a fork with threads is warned about by CPython
  // 3.12+, and its lock could be held). It starts again with the next chunk that is taken.
  void stop_helper();

 private:
  static constexpr size_t kChunkBytes = 1 << 20;
  static constexpr size_t kGrowBytes = 16 << 20;   // disk space is claimed in steps of this
  static constexpr size_t kMinTailBytes = 4096;    // smaller rests are not worth a segment
  static constexpr int kReadyAtLeast = 1;
  static constexpr int kReadyAtMost = 8;

  struct Chunk {
    char* map = nullptr;
    uint32_t segments_open = 0;
    bool whole = false;  // given out as one segment: unmapped as soon as that is given back
  };
  struct Tail {
    format::SegmentHeader* header;
  };

  char* map_next_chunk(bool touch);  // with mutex_ held; nullptr: no room
  char* take_chunk();
  void start_helper();
  void helper_main();
  Segment claim(format::SegmentHeader* header, size_t capacity_words, uint32_t thread, uint32_t sequence,
                uint64_t tick);

  int fd_ = -1;
  format::FileHeader* header_ = nullptr;
  std::vector<Tail> tails_;   // rests of segments of ended threads, and of the chunk being carved
  std::vector<char*> carved_; // chunks that hold small segments: mapped until close

  std::mutex mutex_;          // guards everything below; never held while touching pages
  std::condition_variable wake_;
  std::vector<char*> ready_;
  std::vector<char*> retired_;
  uint64_t mapped_chunks_ = 0;
  uint64_t allocated_bytes_ = 0;
  int ready_target_ = kReadyAtLeast;
  bool out_of_room_ = false;
  bool helper_wanted_ = false;
  bool helper_running_ = false;
  bool helper_failed_ = false;
  unsigned long helper_ = 0;  // pthread_t
};

class Journal {
 public:
  int open(const std::string& path);
  void close();
  void abandon() { close(); }
  // Appends whole lines. False: they could not be written.
  bool write(const std::string& lines);

 private:
  int fd_ = -1;
};

}  // namespace frametap
