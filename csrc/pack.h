// Several vectors as one, so that the steps of a function alternate between them: a processor
// looks ahead far enough to overlap one long chain of operations with the next only in part.
#pragma once

#include "vector.h"

namespace fastcell::FASTCELL_ISA {

template <class V, int N>
struct Pack {
  V part[N];
};

template <class V, int N>
struct ElementOf<Pack<V, N>> {
  using type = Element<V>;
};

// f of the parts at the same place, for each place.
template <class F, class V, int N, class... More>
FASTCELL_INLINE auto each(F f, const Pack<V, N>& a, const Pack<More, N>&... more) {
  Pack<decltype(f(a.part[0], more.part[0]...)), N> result;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) result.part[i] = f(a.part[i], more.part[i]...);
  return result;
}

#define FASTCELL_LANEWISE(op)                                                     \
  template <class A, class B, int N>                                              \
  FASTCELL_INLINE auto operator op(const Pack<A, N>& a, const Pack<B, N>& b) {    \
    return each([](auto x, auto y) { return x op y; }, a, b);                     \
  }                                                                               \
  template <class V, int N>                                                       \
  FASTCELL_INLINE auto operator op(const Pack<V, N>& a, decltype(V{}[0] + 0) b) { \
    return each([b](auto x) { return x op b; }, a);                               \
  }                                                                               \
  template <class V, int N>                                                       \
  FASTCELL_INLINE auto operator op(decltype(V{}[0] + 0) a, const Pack<V, N>& b) { \
    return each([a](auto y) { return a op y; }, b);                               \
  }
FASTCELL_LANEWISE(+)
FASTCELL_LANEWISE(-)
FASTCELL_LANEWISE(*)
FASTCELL_LANEWISE(/)
FASTCELL_LANEWISE(<)
FASTCELL_LANEWISE(<=)
FASTCELL_LANEWISE(==)
FASTCELL_LANEWISE(&)
FASTCELL_LANEWISE(|)
FASTCELL_LANEWISE(<<)
#undef FASTCELL_LANEWISE

template <class V, int N>
FASTCELL_INLINE auto operator-(const Pack<V, N>& a) {
  return each([](auto x) { return -x; }, a);
}
template <class V, int N>
FASTCELL_INLINE Pack<V, N> least(Pack<V, N> a, Pack<V, N> b) {
  return each([](V x, V y) { return least(x, y); }, a, b);
}
template <class V, int N>
FASTCELL_INLINE Pack<V, N> greatest(Pack<V, N> a, Pack<V, N> b) {
  return each([](V x, V y) { return greatest(x, y); }, a, b);
}
template <class M, class V, int N>
FASTCELL_INLINE Pack<V, N> where(Pack<M, N> test, Pack<V, N> a, Pack<V, N> b) {
  return each([](M t, V x, V y) { return where<V>(t, x, y); }, test, a, b);
}
template <class V, int N>
FASTCELL_INLINE Pack<V, N> sqrt(Pack<V, N> a) {
  return each([](V x) { return sqrt(x); }, a);
}
template <class V, int N>
FASTCELL_INLINE auto bits(Pack<V, N> a) {
  return each([](V x) { return bits(x); }, a);
}
template <class M, int N>
FASTCELL_INLINE auto from_bits(Pack<M, N> a) {
  return each([](M x) { return from_bits(x); }, a);
}

}  // namespace fastcell::FASTCELL_ISA
