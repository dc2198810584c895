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
void pass(int64_t rows, int64_t width, View<T> dst, View<T> a, View<T> b, View<T> c) {
  using V = Vector<T>;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t block = 0; block < width; block += LANES) {
#pragma GCC unroll 8
      for (int64_t j = block; j < block + LANES; j += lanes<T>) {
        V x = Op::arity > NULLARY ? load(a.data + j) : V{};
        V y = Op::arity > UNARY ? load(b.data + j) : V{};
        V z = Op::arity > BINARY ? load(c.data + j) : V{};
        store(dst.data + j, Op::template apply<V>(x, y, z));
      }
    }
    dst.data += dst.stride, a.data += a.stride, b.data += b.stride, c.data += c.stride;
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
#define FASTCELL_UNARY(name, value, reads, derivative)     \
  struct Op_##name {                                       \
    static constexpr Arity arity = UNARY;                  \
    template <class V>                                     \
    static FASTCELL_INLINE V apply(V x, V, V) {            \
      return value;                                        \
    }                                                      \
  };                                                       \
  struct Op_##name##_grad {                                \
    static constexpr Arity arity = BINARY;                 \
    template <class V>                                     \
    static FASTCELL_INLINE V apply(V g, [[maybe_unused]] V reads, V) { \
      return derivative;                                   \
    }                                                      \
  };
#define FASTCELL_BINARY(name, value)                       \
  struct Op_##name {                                       \
    static constexpr Arity arity = BINARY;                 \
    template <class V>                                     \
    static FASTCELL_INLINE V apply(V a, V b, V) {          \
      return value;                                        \
    }                                                      \
  };
#define FASTCELL_TERNARY(name, value)                      \
  struct Op_##name {                                       \
    static constexpr Arity arity = TERNARY;                \
    template <class V>                                     \
    static FASTCELL_INLINE V apply(V a, V b, V c) {        \
      return value;                                        \
    }                                                      \
  };
#include "ops.def"

// In the order of the opcodes, from COPY on.
template <class T>
constexpr Pass<T> passes[] = {
  pass<T, Copy>, pass<T, Zero>,
#define FASTCELL_UNARY(name, value, reads, derivative) \
  pass<T, Op_##name>, pass<T, Op_##name##_grad>,
#define FASTCELL_BINARY(name, value) pass<T, Op_##name>,
#define FASTCELL_TERNARY(name, value) pass<T, Op_##name>,
#include "ops.def"
};

}  // namespace fastcell::FASTCELL_ISA
