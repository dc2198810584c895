// Numbers too small to be normal count as 0 while a run lasts: gradients that die out over a long
// sequence would otherwise slow every operation they pass through.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fastcell::FASTCELL_ISA {

// Of the calling thread, for the life of this object.
class FlushDenormals {
 public:
  FlushDenormals() : before(get()) { set(before | FLUSH); }
  ~FlushDenormals() { set(before); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  using Control = uint32_t;
  static constexpr Control FLUSH = 0x8040;  // results, and operands
  static Control get() { return _mm_getcsr(); }
  static void set(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
  using Control = uint64_t;
  static constexpr Control FLUSH = 1 << 24;
  static Control get() {
    Control control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void set(Control control) { asm volatile("msr fpcr, %0" : : "r"(control)); }
#else
  using Control = int;
  static constexpr Control FLUSH = 0;
  static Control get() { return 0; }
  static void set(Control) {}
#endif
  const Control before;
};

}  // namespace fastcell::FASTCELL_ISA
