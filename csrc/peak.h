// The yardstick: what one thread reaches with nothing but multiply-adds in registers.
#pragma once

#include <omp.h>

#include "math.h"

namespace fastcell::FASTCELL_ISA {

// Enough sums under way to hide the latency of each.
constexpr int FMA_SUMS = 12;

// The sum of FMA_SUMS chains of `rounds` multiply-adds each.
template <class T>
__attribute__((noinline)) T fma_chains(int rounds) {
  using V = Vector<T>;
  V sum[FMA_SUMS], factor = V{} + T(0.999), term = V{} + T(0.001), total = V{};
#pragma GCC unroll 12
  for (int i = 0; i < FMA_SUMS; ++i) sum[i] = V{} + T(i + 2);  // different, lest they be merged
  for (int round = 0; round < rounds; ++round) {
    asm volatile("");  // an effect, or the compiler would call this once for all
#pragma GCC unroll 12
    for (int i = 0; i < FMA_SUMS; ++i) sum[i] = sum[i] * factor + term;
  }
#pragma GCC unroll 12
  for (int i = 0; i < FMA_SUMS; ++i) total += sum[i];
  return total[0];
}

// Floating-point operations per second, over about so many seconds.
template <class T>
double fma_rate(double seconds) {
  constexpr int ROUNDS = 10000;
  double start = omp_get_wtime(), now = start, rounds = 0;
  volatile T used = 0;
  for (; now - start < seconds; now = omp_get_wtime(), rounds += ROUNDS) {
    used = fma_chains<T>(ROUNDS);
  }
  return (void)used, rounds * FMA_SUMS * lanes<T> * 2 / (now - start);
}

}  // namespace fastcell::FASTCELL_ISA
