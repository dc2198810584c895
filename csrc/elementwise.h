// Elementwise instructions: one pass over the rows of a tile for each row of ops.def.
#pragma once

#include "math.h"
#include "memory.h"
#include "program.h"

namespace fastcell::FASTCELL_ISA {

// Applies Op to `rows` rows of `width` columns, a multiple of LANES.
template <class T>
using Pass = void (*)(int64_t rows, int64_t width, View<T> dst, View<T> a, View<T> b, View<T> c);

// An operand of an Op that it does not have is never loaded.
enum Arity { NULLARY, UNARY, BINARY, TERNARY };

template <class T, class Op>
FASTCELL_INLINE void apply(int64_t at, T* dst, const T* a, const T* b, const T* c) {
  Vector<T> x{}, y{}, z{};
  if (Op::arity > NULLARY) x = load(a + at);
  if (Op::arity > UNARY) y = load(b + at);
  if (Op::arity > BINARY) z = load(c + at);
  store(dst + at, Op::apply(x, y, z));
}

template <class T, class Op>
void pass(int64_t rows, int64_t width, View<T> dst, View<T> a, View<T> b, View<T> c) {
  for (int64_t i = 0; i < rows; ++i) {
    T *to = &dst(i, 0), *x = &a(i, 0), *y = &b(i, 0), *z = &c(i, 0);
    for (int64_t block = 0; block < width; block += LANES) {
#pragma GCC unroll 8
      for (int j = 0; j < LANES / lanes<T>; ++j) apply<T, Op>(block + j * lanes<T>, to, x, y, z);
    }
  }
}

struct Copy {
  static constexpr Arity arity = UNARY;
  template <class V>
  static FASTCELL_INLINE V apply(V a, V, V) {
    return a;
  }
};

struct Zero {
  static constexpr Arity arity = NULLARY;
  template <class V>
  static FASTCELL_INLINE V apply(V, V, V) {
    return V{};
  }
};

// What a derivative reads is the name of its second parameter, so that it can read nothing else.
#define FASTCELL_UNARY(name, value, reads, derivative)                 \
  struct Op_##name {                                                   \
    static constexpr Arity arity = UNARY;                              \
    template <class V>                                                 \
    static FASTCELL_INLINE V apply(V x, V, V) {                        \
      return value;                                                    \
    }                                                                  \
  };                                                                   \
  struct Op_##name##_grad {                                            \
    static constexpr Arity arity = BINARY;                             \
    template <class V>                                                 \
    static FASTCELL_INLINE V apply(V g, [[maybe_unused]] V reads, V) { \
      return derivative;                                               \
    }                                                                  \
  };
#define FASTCELL_BINARY(name, value)              \
  struct Op_##name {                              \
    static constexpr Arity arity = BINARY;        \
    template <class V>                            \
    static FASTCELL_INLINE V apply(V a, V b, V) { \
      return value;                               \
    }                                             \
  };
#define FASTCELL_TERNARY(name, value)               \
  struct Op_##name {                                \
    static constexpr Arity arity = TERNARY;         \
    template <class V>                              \
    static FASTCELL_INLINE V apply(V a, V b, V c) { \
      return value;                                 \
    }                                               \
  };
#include "ops.def"

// In the order of the opcodes, from COPY on.
template <class T>
constexpr Pass<T> passes[] = {
    pass<T, Copy>,
    pass<T, Zero>,
#define FASTCELL_UNARY(name, value, reads, derivative) \
  pass<T, Op_##name>, pass<T, Op_##name##_grad>,
#define FASTCELL_BINARY(name, value) pass<T, Op_##name>,
#define FASTCELL_TERNARY(name, value) pass<T, Op_##name>,
#include "ops.def"
};

}  // namespace fastcell::FASTCELL_ISA
