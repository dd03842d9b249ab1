// Ticks: the cheapest monotone counter of the processor, and how it relates to the system's clocks.
//
// x86-64 reads the time stamp counter without a fence: the fence would cost 16 to 20 ns a call and
// orders nothing that matters here. arm64 and other systems are written but untested.
#pragma once

#include <time.h>

#include <cstdint>

#include "store/format.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace frametap {

inline uint64_t system_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

#if defined(__x86_64__)
inline constexpr format::ClockKind kClockKind = format::ClockKind::kTsc;
inline uint64_t now_ticks() { return __rdtsc(); }
#elif defined(__aarch64__)
inline constexpr format::ClockKind kClockKind = format::ClockKind::kArmCounter;
inline uint64_t now_ticks() {
  uint64_t t;
  asm volatile("mrs %0, cntvct_el0" : "=r"(t));
  return t;
}
#else
inline constexpr format::ClockKind kClockKind = format::ClockKind::kMonotonic;
inline uint64_t now_ticks() { return system_ns(CLOCK_MONOTONIC); }
#endif

// The three clocks at one moment. The system clock is read between two ticks; the closest of a few
// tries is kept, so a switch to another process in the middle does no harm.
inline format::ClockPair read_clock_pair() {
  format::ClockPair best{};
  uint64_t best_width = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = now_ticks();
    uint64_t mono = system_ns(CLOCK_MONOTONIC);
    uint64_t width = now_ticks() - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, mono, system_ns(CLOCK_REALTIME)};
    }
  }
  return best;
}

// Ticks per nanosecond between two moments, at least a few milliseconds apart to mean anything.
inline double ticks_per_ns(const format::ClockPair& a, const format::ClockPair& b) {
  if (b.monotonic_ns <= a.monotonic_ns || b.tick <= a.tick) return 1.0;
  return double(b.tick - a.tick) / double(b.monotonic_ns - a.monotonic_ns);
}

}  // namespace frametap
