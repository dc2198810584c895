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

// The lesser and the greater of two, b if either is NaN; and the square root. Compilers don't find
// the instruction for either (NaN, errno), so where there is one it is named below.
template <class V>
FASTCELL_INLINE V least(V a, V b) {
  return where<V>(a < b, a, b);
}
template <class V>
FASTCELL_INLINE V greatest(V a, V b) {
  return where<V>(a > b, a, b);
}
template <class V>
FASTCELL_INLINE V sqrt(V a) {
  for (int i = 0; i < lanes<Element<V>>; ++i) a[i] = __builtin_sqrt(a[i]);
  return a;
}

#define FASTCELL_INSTRUCTIONS(T, min, max, root)                 \
  template <>                                                    \
  FASTCELL_INLINE Vector<T> least(Vector<T> a, Vector<T> b) {    \
    return (Vector<T>)min;                                       \
  }                                                              \
  template <>                                                    \
  FASTCELL_INLINE Vector<T> greatest(Vector<T> a, Vector<T> b) { \
    return (Vector<T>)max;                                       \
  }                                                              \
  template <>                                                    \
  FASTCELL_INLINE Vector<T> sqrt(Vector<T> a) {                  \
    return (Vector<T>)root;                                      \
  }
#if FASTCELL_VECTOR_BYTES == 64 && defined(__AVX512F__)
FASTCELL_INSTRUCTIONS(float, _mm512_maskz_min_ps(-1, a, b), _mm512_maskz_max_ps(-1, a, b),
                      _mm512_maskz_sqrt_ps(-1, a))
FASTCELL_INSTRUCTIONS(double, _mm512_maskz_min_pd(-1, a, b), _mm512_maskz_max_pd(-1, a, b),
                      _mm512_maskz_sqrt_pd(-1, a))
#elif FASTCELL_VECTOR_BYTES == 32 && defined(__AVX__)
FASTCELL_INSTRUCTIONS(float, _mm256_min_ps(a, b), _mm256_max_ps(a, b), _mm256_sqrt_ps(a))
FASTCELL_INSTRUCTIONS(double, _mm256_min_pd(a, b), _mm256_max_pd(a, b), _mm256_sqrt_pd(a))
#elif FASTCELL_VECTOR_BYTES == 16 && defined(__SSE2__)
FASTCELL_INSTRUCTIONS(float, _mm_min_ps(a, b), _mm_max_ps(a, b), _mm_sqrt_ps(a))
FASTCELL_INSTRUCTIONS(double, _mm_min_pd(a, b), _mm_max_pd(a, b), _mm_sqrt_pd(a))
#endif
#undef FASTCELL_INSTRUCTIONS

}  // namespace fastcell::FASTCELL_ISA
