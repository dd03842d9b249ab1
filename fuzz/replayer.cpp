// libFuzzer target: whatever the words are, `Replayer` does not crash and its spans nest.
// Build and run: make -C fuzz run
//
// Input bytes become words through a small code, so that mutations meet real events: most bytes
// choose an event, some take the raw bytes that follow. The clock, too, comes from the input.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "replay/replayer.h"

using namespace frametap;
using replay::Replayer;

namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t n) : data_(data), n_(n) {}
  bool empty() const { return n_ == 0; }
  uint8_t byte() {
    if (n_ == 0) return 0;
    --n_;
    return *data_++;
  }
  uint64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= uint64_t{byte()} << 8 * i;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t n_;
};

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "broken: %s (line %d)\n", #condition, __LINE__);    \
      std::abort();                                                            \
    }                                                                          \
  } while (0)

void check_nesting(const replay::Calls& calls) {
  std::vector<int64_t> open;
  std::vector<int64_t> inside(calls.n_rows, 0);
  for (size_t row = 0; row < calls.n_rows; ++row) {
    int64_t start = calls.start_ns[row], duration = calls.duration_ns[row];
    CHECK(duration >= 0);
    CHECK(row == 0 || start >= calls.start_ns[row - 1]);
    CHECK(calls.depth[row] <= open.size());
    open.resize(calls.depth[row]);
    int64_t parent = open.empty() ? -1 : open.back();
    CHECK(calls.parent[row] == parent);
    if (parent >= 0) {
      auto p = static_cast<size_t>(parent);
      CHECK(start >= calls.start_ns[p] + inside[p]);  // and so not before the end of a sibling
      CHECK(start + duration <= calls.start_ns[p] + calls.duration_ns[p]);
      inside[p] += duration;
    }
    CHECK(calls.outcome[row] <= 3);
    open.push_back(static_cast<int64_t>(row));
  }
  for (size_t row = 0; row < calls.n_rows; ++row) {
    CHECK(calls.self_ns[row] >= 0);
    CHECK(calls.self_ns[row] == calls.duration_ns[row] - inside[row]);
  }
}

// One event, or a few raw words.
void put_event(Bytes& in, std::vector<uint64_t>& words) {
  uint8_t what = in.byte();
  uint64_t delta = uint64_t{in.byte()} << 32;
  switch (what % 16) {
    case 0: case 1: case 2: case 3: case 4:  // a call: known, C, hidden or unknown
      words.push_back(delta | (format::kFirstSite + what / 16));
      break;
    case 5:
      words.push_back(delta | format::kResumeBit | (format::kFirstSite + what / 16));
      words.push_back(in.byte());
      break;
    case 6: case 7: case 8: case 9: case 10:
      words.push_back(delta | (1 + what / 16 % 5));
      break;
    case 11: case 12: case 13: {  // a record, its length now and then wrong
      words.push_back(delta | format::kRecord);
      uint64_t kind = what / 16 + (what % 16 == 13 ? 8 : 1), arg = in.byte(), n = in.byte() % 4;
      words.push_back(arg << 16 | n << 8 | kind);
      for (uint64_t i = 0; i < n; ++i) words.push_back(in.byte());
      break;
    }
    case 14:
      words.push_back(delta | format::kSync);
      words.push_back(in.word());
      break;
    default: words.push_back(in.word()); break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  std::vector<uint64_t> ticks;
  std::vector<int64_t> ns;
  for (int n = in.byte() % 4; n > 0; --n) {
    ticks.push_back(in.word());
    ns.push_back(static_cast<int64_t>(in.word()));
  }
  double rate;
  uint64_t bits = in.word();
  std::memcpy(&rate, &bits, sizeof rate);
  std::vector<uint8_t> classes(format::kFirstSite);
  for (int i = 0; i < 12; ++i) classes.push_back(i % 8);

  Replayer replayer(classes, replay::ClockMap(ticks, ns, rate));
  while (!in.empty()) {
    uint8_t how = in.byte();
    uint64_t tick = how & 1 ? in.word() : in.byte();
    if (how % 16 == 2) replayer.missing(tick);
    std::vector<uint64_t> words;
    for (int n = how; n > 0 && !in.empty(); --n) put_event(in, words);
    replayer.feed(words.data(), words.size(), tick);
  }
  replayer.finish();
  for (const auto& track : replayer.tracks()) check_nesting(track.calls);
  CHECK(replayer.resumes().row.size() == replayer.resumes().address.size());
  for (size_t i = 0; i < replayer.resumes().row.size(); ++i) {
    uint32_t track = replayer.resumes().track[i];
    CHECK(track < replayer.tracks().size());
    CHECK(static_cast<size_t>(replayer.resumes().row[i]) < replayer.tracks()[track].calls.n_rows);
  }
  for (uint32_t track : replayer.marks().track) CHECK(track < replayer.tracks().size());
  for (int slot = 0; slot < replay::kLossSlots; ++slot) {
    const auto& loss = replayer.losses()[slot];
    CHECK(loss.count == 0 || (loss.first_ns <= loss.last_ns && loss.last_ns <= replayer.last_ns()));
  }
  return 0;
}
