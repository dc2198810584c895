// Vectors of float or double, as long as the instruction set has them, by GCC's vector extensions:
// + - * / and comparisons work lane by lane, and with a scalar on either side.
#pragma once

#include <cstdint>

#if FASTCELL_VECTOR_BYTES > 16 || defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef FASTCELL_ISA
#error "compile with -DFASTCELL_ISA=name and -DFASTCELL_VECTOR_BYTES=n; see setup.py"
#endif

// Everything here is compiled once per instruction set. Distinct namespaces keep the linker from
// taking one set's copy of an inline function for another's.
namespace fastcell::FASTCELL_ISA {

#define FASTCELL_INLINE inline __attribute__((always_inline))

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(FASTCELL_VECTOR_BYTES)));
};
template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
constexpr int lanes = FASTCELL_VECTOR_BYTES / sizeof(T);

// What a comparison of two V gives: an integer vector, all ones or zero in each lane.
template <class V>
using Mask = decltype(V{} < V{});

template <class V>
struct ElementOf;
template <>
struct ElementOf<Vector<float>> {
  using type = float;
};
template <>
struct ElementOf<Vector<double>> {
  using type = double;
};
template <class V>
using Element = typename ElementOf<V>::type;

template <class V>
FASTCELL_INLINE V where(Mask<V> test, V yes, V no) {
  return test ? yes : no;
}

// The lesser and the greater of two; b if either is NaN. Compilers turn the plain expression into
// the one instruction it is only where NaN doesn't count.
template <class V>
FASTCELL_INLINE V least(V a, V b) {
  return where<V>(a < b, a, b);
}
template <class V>
FASTCELL_INLINE V greatest(V a, V b) {
  return where<V>(a > b, a, b);
}

#define FASTCELL_EXTREMES(T, bits, suffix)                                                 \
  template <>                                                                              \
  FASTCELL_INLINE Vector<T> least(Vector<T> a, Vector<T> b) {                              \
    return (Vector<T>)_mm##bits##_min_##suffix(a, b);                                      \
  }                                                                                        \
  template <>                                                                              \
  FASTCELL_INLINE Vector<T> greatest(Vector<T> a, Vector<T> b) {                           \
    return (Vector<T>)_mm##bits##_max_##suffix(a, b);                                      \
  }
#if FASTCELL_VECTOR_BYTES == 32 && defined(__AVX__)
FASTCELL_EXTREMES(float, 256, ps)
FASTCELL_EXTREMES(double, 256, pd)
#elif FASTCELL_VECTOR_BYTES == 16 && defined(__SSE2__)
FASTCELL_EXTREMES(float, , ps)
FASTCELL_EXTREMES(double, , pd)
#endif
#undef FASTCELL_EXTREMES

template <class V>
FASTCELL_INLINE V sqrt(V x) {
  V root;
  for (int i = 0; i < lanes<Element<V>>; ++i) root[i] = __builtin_sqrt(x[i]);
  return root;
}

}  // namespace fastcell::FASTCELL_ISA
