#include "store/scan.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/format.h"

namespace frametap::store {

namespace {

using format::SegmentHeader;

constexpr uint64_t kBlockBytes = 1 << 20;
// More is taken for damage: readers hold one segment in memory.
constexpr uint64_t kMaxSegmentWords = (uint64_t{256} << 20) / 8;

uint64_t align_segment(uint64_t n) { return (n + format::kSegmentAlign - 1) & ~uint64_t{format::kSegmentAlign - 1}; }

// Bytes read, short only at the file's end or on an error.
size_t read_at(int fd, void* to, size_t n, uint64_t offset) {
  size_t done = 0;
  while (done < n) {
    ssize_t got = pread(fd, static_cast<char*>(to) + done, n - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

bool is_header(const SegmentHeader& h) { return h.magic == format::kSegmentMagic; }

// Where the next segment header lies in [from, to), or `to`. *any: whether a byte before it is not zero.
uint64_t search_header(int fd, uint64_t from, uint64_t to, bool* any) {
  std::vector<char> block;
  *any = false;
  while (from + sizeof(SegmentHeader) <= to) {
    size_t want = std::min(kBlockBytes, (to - from) & ~uint64_t{format::kSegmentAlign - 1});
    block.resize(want);
    size_t got = read_at(fd, block.data(), want, from) & ~(format::kSegmentAlign - 1);
    for (size_t at = 0; at < got; at += format::kSegmentAlign) {
      SegmentHeader h;
      std::memcpy(&h, block.data() + at, sizeof h);
      if (is_header(h)) return from + at;
      const char* bytes = block.data() + at;
      *any = *any || std::any_of(bytes, bytes + format::kSegmentAlign, [](char c) { return c != 0; });
    }
    if (got < want) break;
    from += got;
  }
  return to;
}

class Finder {
 public:
  Finder(int fd, uint64_t file_bytes) : fd_(fd), file_bytes_(file_bytes) {}

  void chunk(uint64_t begin, uint64_t end, bool known_size) {
    // `end` is where the chunk should end, `limit` where its bytes do.
    const uint64_t limit = std::min(end, file_bytes_);
    uint64_t at = begin;
    while (at + sizeof(SegmentHeader) <= limit) {
      SegmentHeader h;
      if (read_at(fd_, &h, sizeof h, at) != sizeof h) {
        fault(at, Fault::kUnreadable);
        return;
      }
      if (is_header(h)) {
        at = segment(h, at, end, limit);
        continue;
      }
      // Zeros are the chunk's unused end. Anything else is damage, and later segments may be whole.
      static const SegmentHeader kZero{};
      if (known_size && std::memcmp(&h, &kZero, sizeof h) == 0) return;
      bool any = false;
      uint64_t next = search_header(fd_, at, limit, &any);
      if (any) fault(at, Fault::kNotASegment);
      at = next;
    }
  }

  SegmentColumns take() { return std::move(columns_); }

 private:
  void fault(uint64_t offset, Fault kind) {
    columns_.fault_offset.push_back(offset);
    columns_.fault_kind.push_back(static_cast<uint8_t>(kind));
  }

  // Notes the segment at `at`; returns where the next one starts.
  uint64_t segment(const SegmentHeader& h, uint64_t at, uint64_t end, uint64_t limit) {
    const uint64_t first = at + sizeof h;
    const uint64_t words_to_end = std::min((end - first) / 8, kMaxSegmentWords);
    const uint64_t words_to_limit = (limit - first) / 8;
    uint64_t capacity = h.capacity_words;
    uint64_t next = align_segment(first + capacity * 8);
    if (capacity > words_to_end) {
      fault(at, Fault::kCapacity);
      capacity = words_to_end;
      // The words that were written are told by n_words; the next segment lies somewhere after them.
      next = align_segment(first + std::min<uint64_t>(h.n_words, capacity) * 8);
    }
    if (h.thread == 0) return next;  // room that no thread has taken
    uint64_t n = h.n_words;
    if (n == 0) {
      size_t room = std::min(capacity, words_to_limit);
      buffer_.resize(room);
      size_t got = read_at(fd_, buffer_.data(), room * 8, first);
      if (got < room * 8) fault(at, Fault::kUnreadable);
      n = written_words(buffer_.data(), got / 8);
    } else if (n > std::min(capacity, words_to_limit)) {
      fault(at, Fault::kWordsCut);
      n = std::min(capacity, words_to_limit);
    }
    columns_.thread.push_back(h.thread);
    columns_.sequence.push_back(h.sequence);
    columns_.tick.push_back(h.tick);
    columns_.monotonic_ns.push_back(h.monotonic_ns);
    columns_.n_words.push_back(n);
    columns_.offset.push_back(first);
    columns_.open.push_back(h.n_words == 0);
    return next;
  }

  int fd_;
  uint64_t file_bytes_;
  SegmentColumns columns_;
  std::vector<uint64_t> buffer_;
};

// Words that the event at words[0] takes with its payload, at least 1; more than n: it is cut.
size_t event_words(const uint64_t* words, size_t n) {
  const uint32_t id = static_cast<uint32_t>(words[0]);
  if ((id & format::kResumeBit) || id == format::kSync) return 2;
  if (id == format::kRecord) return n < 2 ? 2 : 2 + ((words[1] >> 8) & 0xff);
  return 1;
}

}  // namespace

SegmentColumns find_segments(int fd, uint64_t file_bytes, uint64_t chunk_bytes) {
  Finder finder(fd, file_bytes);
  if (chunk_bytes == 0) {
    finder.chunk(format::kHeaderBytes, file_bytes, false);
    return finder.take();
  }
  for (uint64_t at = format::kHeaderBytes; at < file_bytes; at += chunk_bytes) {
    finder.chunk(at, at + chunk_bytes, true);
  }
  return finder.take();
}

size_t written_words(const uint64_t* words, size_t n) {
  size_t at = 0;
  while (at < n && static_cast<uint32_t>(words[at]) != format::kNothing) {
    const size_t size = event_words(words + at, n - at);
    // A payload that the writer did not reach is zero; no whole event has one (a generator lies
    // at an address, a record has a kind, a tick is not zero).
    if (size > n - at || (size > 1 && words[at + 1] == 0)) break;
    at += size;
  }
  return at;
}

void count_events(const uint64_t* words, size_t n, EventCounts& counts) {
  size_t at = 0;
  while (at < n) {
    const uint32_t id = static_cast<uint32_t>(words[at]);
    const size_t size = event_words(words + at, n - at);
    if (size > n - at || id == format::kNothing || (id > format::kRecord && id < format::kFirstSite)) {
      counts[kCountInvalid]++;
      at += std::min(size, n - at);
      continue;
    }
    if (id & format::kResumeBit) {
      counts[kCountResume]++;
    } else if (id >= format::kFirstSite) {
      counts[kCountEnter]++;
    } else {
      counts[id]++;
      if (id == format::kRecord) counts[kCountRecord + (words[at + 1] & 0xff)]++;
    }
    at += size;
  }
}

}  // namespace frametap::store
