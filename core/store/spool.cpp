#include "store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "store/clock.h"

namespace frametap {

using namespace format;

namespace {

void touch_pages(char* p, size_t n) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(p, n, MADV_POPULATE_WRITE) == 0) return;
#endif
  // The chunk may be in use already: write to each page without changing a byte.
  for (size_t i = 0; i < n; i += 4096) __atomic_fetch_or(p + i, 0, __ATOMIC_RELAXED);
}

// A program may have closed its standard streams: nothing of ours may take their place.
int open_above_standard_streams(const std::string& path, int flags) {
  int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int error = errno;
  ::close(fd);
  errno = error;
  return higher;
}

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

int EventsFile::open(const std::string& path, double ticks_per_ns) {
  int fd = open_above_standard_streams(path, O_RDWR | O_CREAT | O_EXCL);
  if (fd < 0) return errno;
  int error = posix_fallocate(fd, 0, kHeaderBytes);
  void* map = MAP_FAILED;
  if (!error) {
    map = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) error = errno;
  }
  if (error) {
    ::close(fd);
    unlink(path.c_str());
    return error;
  }
  fd_ = fd;
  header_ = static_cast<FileHeader*>(map);
  allocated_bytes_ = kHeaderBytes;
  mapped_chunks_ = 0;
  ready_target_ = kReadyAtLeast;
  out_of_room_ = helper_failed_ = false;
  *header_ = FileHeader{};
  header_->format_version = kFormatVersion;
  header_->clock_kind = kClockKind;
  header_->chunk_bytes = kChunkBytes;
  header_->pid = uint32_t(getpid());
  header_->start = read_clock_pair();
  header_->ticks_per_ns = ticks_per_ns;
  memcpy(header_->magic, kFileMagic, sizeof kFileMagic);
  return 0;
}

void EventsFile::close() {
  if (!header_) return;
  stop_helper();
  for (char* c : ready_) munmap(c, kChunkBytes);
  for (char* c : retired_) munmap(c, kChunkBytes);
  for (char* c : carved_) munmap(c, kChunkBytes);
  // Prepared chunks that nobody took lie at the file's end: cut them off. A failure only costs space.
  uint64_t used = kHeaderBytes + header_->n_chunks * kChunkBytes;
  header_->stop = read_clock_pair();
  [[maybe_unused]] int ignored = ftruncate(fd_, off_t(used));
  abandon();
}

void EventsFile::abandon() {
  if (header_) munmap(header_, kHeaderBytes);
  if (fd_ >= 0) ::close(fd_);
  header_ = nullptr;
  fd_ = -1;
  ready_.clear();
  retired_.clear();
  carved_.clear();
  tails_.clear();
  helper_wanted_ = helper_running_ = false;
}

// Chunks are handed out in the order in which they are mapped, so n_chunks counts a prefix.
char* EventsFile::map_next_chunk(bool touch) {
  if (out_of_room_) return nullptr;
  uint64_t begin = kHeaderBytes + mapped_chunks_ * kChunkBytes;
  if (begin + kChunkBytes > allocated_bytes_) {
    // A large step first: it costs one system call for 16 chunks and keeps the file in few extents.
    uint64_t to = begin + kGrowBytes;
    int error = posix_fallocate(fd_, off_t(allocated_bytes_), off_t(to - allocated_bytes_));
    if (error) {
      to = begin + kChunkBytes;
      error = posix_fallocate(fd_, off_t(allocated_bytes_), off_t(to - allocated_bytes_));
    }
    if (error) {
      out_of_room_ = true;
      return nullptr;
    }
    allocated_bytes_ = to;
  }
  void* map = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, off_t(begin));
  if (map == MAP_FAILED) {
    out_of_room_ = true;
    return nullptr;
  }
  mapped_chunks_++;
  if (touch) touch_pages(static_cast<char*>(map), kChunkBytes);
  return static_cast<char*>(map);
}

char* EventsFile::take_chunk() {
  std::unique_lock lock(mutex_);
  char* chunk = nullptr;
  if (!ready_.empty()) {
    chunk = ready_.front();
    ready_.erase(ready_.begin());
  } else {
    // The helper was too slow, or is not there: let it prepare more next time.
    ready_target_ = std::min(ready_target_ * 2, kReadyAtMost);
    chunk = map_next_chunk(false);
  }
  if (!chunk) return nullptr;
  header_->n_chunks++;
  if (!helper_running_ && !helper_failed_) start_helper();
  wake_.notify_one();
  return chunk;
}

Segment EventsFile::claim(SegmentHeader* header, size_t capacity_words, uint32_t thread, uint32_t sequence,
                          uint64_t tick) {
  header->thread = thread;
  header->sequence = sequence;
  header->n_words = 0;
  header->tick = tick;
  header->monotonic_ns = system_ns(CLOCK_MONOTONIC);
  header->capacity_words = capacity_words;
  header->magic = kSegmentMagic;
  return Segment{header};
}

Segment EventsFile::take(uint32_t thread, uint32_t sequence, uint64_t tick, size_t want_bytes) {
  if (!header_) return {};
  if (want_bytes >= kChunkBytes) {
    char* chunk = take_chunk();
    if (!chunk) return {};
    return claim(reinterpret_cast<SegmentHeader*>(chunk), (kChunkBytes - sizeof(SegmentHeader)) / 8, thread, sequence,
                 tick);
  }
  size_t want_words = round_up(want_bytes, kSegmentAlign) / 8;
  while (true) {
    for (size_t i = tails_.size(); i-- > 0;) {
      SegmentHeader* header = tails_[i].header;
      size_t have = header->capacity_words;
      size_t rest = have > want_words ? (have - want_words) * 8 : 0;
      if (have < want_words && have * 8 < kMinTailBytes) continue;
      tails_.erase(tails_.begin() + ptrdiff_t(i));
      if (rest >= kMinTailBytes + sizeof(SegmentHeader)) {
        auto* after = reinterpret_cast<SegmentHeader*>(reinterpret_cast<char*>(header + 1) + want_words * 8);
        after->thread = 0;
        after->capacity_words = (rest - sizeof(SegmentHeader)) / 8;
        after->magic = kSegmentMagic;
        tails_.push_back({after});
        have = want_words;
      }
      return claim(header, have, thread, sequence, tick);
    }
    char* chunk = take_chunk();
    if (!chunk) return {};
    carved_.push_back(chunk);
    auto* header = reinterpret_cast<SegmentHeader*>(chunk);
    header->thread = 0;
    header->capacity_words = (kChunkBytes - sizeof(SegmentHeader)) / 8;
    header->magic = kSegmentMagic;
    tails_.push_back({header});
  }
}

void EventsFile::give_back(Segment segment, char* end) {
  SegmentHeader* header = segment.header;
  size_t used = size_t(end - segment.begin());
  header->n_words = uint32_t(used / 8);
  // A segment that was never written to would read as "being written": mark it free instead.
  if (used == 0) header->thread = 0;
  size_t capacity = header->capacity_words * 8;
  bool whole = capacity == kChunkBytes - sizeof(SegmentHeader);
  if (whole && capacity - used < kMinTailBytes) {
    std::unique_lock lock(mutex_);
    if (helper_running_) {
      retired_.push_back(reinterpret_cast<char*>(header));
      wake_.notify_one();
    } else {
      munmap(header, kChunkBytes);
    }
    return;
  }
  if (whole) carved_.push_back(reinterpret_cast<char*>(header));  // its rest will serve other threads
  size_t keep = round_up(used, kSegmentAlign);
  size_t rest = capacity - keep;
  if (rest < kMinTailBytes + sizeof(SegmentHeader)) return;
  auto* after = reinterpret_cast<SegmentHeader*>(segment.begin() + keep);
  after->thread = 0;
  after->capacity_words = (rest - sizeof(SegmentHeader)) / 8;
  after->magic = kSegmentMagic;
  header->capacity_words = keep / 8;
  tails_.push_back({after});
}

void EventsFile::start_helper() {
  // Signals stay with the program's own threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  helper_wanted_ = true;
  int error = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        static_cast<EventsFile*>(self)->helper_main();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error) {
    helper_failed_ = true;
    helper_wanted_ = false;
    return;
  }
  helper_ = thread;
  helper_running_ = true;
}

void EventsFile::stop_helper() {
  {
    std::unique_lock lock(mutex_);
    if (!helper_running_) return;
    helper_wanted_ = false;
    wake_.notify_one();
  }
  pthread_join(helper_, nullptr);
  helper_running_ = false;
}

void EventsFile::helper_main() {
  std::unique_lock lock(mutex_);
  while (helper_wanted_) {
    if (!retired_.empty()) {
      char* chunk = retired_.back();
      retired_.pop_back();
      lock.unlock();
      munmap(chunk, kChunkBytes);
      lock.lock();
    } else if (int(ready_.size()) < ready_target_ && !out_of_room_) {
      char* chunk = map_next_chunk(false);
      if (!chunk) continue;
      // Into the queue first: chunks must be taken in file order. A chunk that is taken before its
      // pages are touched is still right, only slower.
      ready_.push_back(chunk);
      lock.unlock();
      touch_pages(chunk, kChunkBytes);
      lock.lock();
    } else {
      wake_.wait(lock);
    }
  }
}

int Journal::open(const std::string& path) {
  fd_ = open_above_standard_streams(path, O_WRONLY | O_CREAT | O_APPEND);
  return fd_ < 0 ? errno : 0;
}

void Journal::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool Journal::write(const std::string& lines) {
  size_t done = 0;
  while (done < lines.size()) {
    ssize_t n = ::write(fd_, lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += size_t(n);
  }
  return true;
}

}  // namespace frametap
