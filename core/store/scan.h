// Finds what is in an events.bin without interpreting it: segments by their headers, the length of
// segments that were still being written when the process died, and counts of events by kind.
//
// In: a file descriptor, or words. Out: plain columns and counts. Invariants: nothing in the file is
// believed before it was compared with the bytes that are left; work and memory are linear in the
// file's size; segments never overlap. The file is read with pread, never mapped: a file that shrinks
// while it is read must not kill the reader.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace frametap::store {

enum class Fault : uint8_t {
  kNotASegment = 1,    // neither a segment header nor zeros: skipped to the next header
  kWordsCut = 2,       // the segment says more words than the file or its room holds
  kCapacity = 3,       // the segment's room reaches beyond its chunk
  kUnreadable = 4,     // the operating system could not read here
};

struct SegmentColumns {
  std::vector<uint32_t> thread;
  std::vector<uint32_t> sequence;
  std::vector<uint64_t> tick;
  std::vector<uint64_t> monotonic_ns;
  std::vector<uint64_t> n_words;
  std::vector<uint64_t> offset;  // of the first word, bytes from the file's start
  std::vector<uint8_t> open;     // 1: was being written, n_words was found by walking
  std::vector<uint64_t> fault_offset;
  std::vector<uint8_t> fault_kind;
};

// All segments between the header page and file_bytes. chunk_bytes 0: not known (the header is
// damaged), the file is searched as one chunk.
SegmentColumns find_segments(int fd, uint64_t file_bytes, uint64_t chunk_bytes);

// Words up to the first event that was not completely written.
size_t written_words(const uint64_t* words, size_t n);

// How many words are events of each control id (index 1..15), entries (kCountEnter), resumes
// (kCountResume), records of each kind (kCountRecord + kind), and words that make no sense.
inline constexpr size_t kCountEnter = 16;
inline constexpr size_t kCountResume = 17;
inline constexpr size_t kCountInvalid = 18;
inline constexpr size_t kCountRecord = 32;
using EventCounts = std::array<uint64_t, kCountRecord + 256>;
void count_events(const uint64_t* words, size_t n, EventCounts& counts);

}  // namespace frametap::store
