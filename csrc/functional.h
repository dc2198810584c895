// A coarser key of a code: equal where two cells are one function by the laws of + and *.
//
// Each step rewrites the code, in the same 57 bits, into a form that says the same with less
// freedom; none is left at the end, so that equal keys are equal functions and no two expressions
// share a key. fastcell/space.py has the argument.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "space.h"

namespace fastcell {

// A code taken apart. As a functional key, a context mask of one bit means that source twice, and
// an output with the Add's bit sums the Add's sources on top of its own.
struct Parts {
  std::array<unsigned, kGates> contexts, values;
  unsigned add;
  std::array<unsigned, 2> outputs;

  explicit Parts(Code code) : add(field(code, 3)), outputs{field(code, 4), field(code, 5)} {
    for (int gate = 0; gate < kGates; ++gate) {
      contexts[gate] = field(code, gate) & 255;
      values[gate] = field(code, gate) >> 8;
    }
  }

  Code code() const {
    Code code =
        Code{add} << kShift[3] | Code{outputs[0]} << kShift[4] | Code{outputs[1]} << kShift[5];
    for (int gate = 0; gate < kGates; ++gate)
      code |= Code{contexts[gate] | values[gate] << 8} << kShift[gate];
    return code;
  }

  // How many times the gates read a source.
  int gates_read(unsigned source) const {
    int times = 0;
    for (int gate = 0; gate < kGates; ++gate)
      times += (contexts[gate] >> source & 1) + (values[gate] == source);
    return times;
  }
};

// An Add of one source is that source.
inline void follow_alias(Parts& parts) {
  if (!parts.add || parts.add & (parts.add - 1)) return;
  for (int gate = 0; gate < kGates; ++gate) {
    if (parts.contexts[gate] >> 7) parts.contexts[gate] = (parts.contexts[gate] & 127) | parts.add;
    if (parts.values[gate] == 7) parts.values[gate] = __builtin_ctz(parts.add);
  }
}

// Outputs as multisets: the Add's bit stays only where some source counts twice. An Add that no
// gate reads is known by its sums alone, so it shrinks to what they hold twice.
inline void flatten_sums(Parts& parts) {
  std::array<unsigned, 2> once, twice;
  for (int i = 0; i < 2; ++i) {
    const unsigned own = parts.outputs[i] & 127, added = parts.outputs[i] >> 7 ? parts.add : 0;
    once[i] = own ^ added;
    twice[i] = own & added;
  }
  if (parts.gates_read(7) == 0) parts.add = twice[0] | twice[1];
  for (int i = 0; i < 2; ++i)
    parts.outputs[i] = twice[i] ? 128 | twice[i] | (once[i] & ~parts.add) : once[i];
}

// A product of products is one product: a gate that serves only as the value of an identity gate
// shares its factors with it, so the contexts along such a chain go in any order. Here, ascending.
inline void sort_factors(Parts& parts) {
  const unsigned summed = parts.add | parts.outputs[0] | parts.outputs[1];
  for (int pass = 1; pass < kGates; ++pass) {
    for (int outer : {0, 1}) {
      const unsigned source = parts.values[outer];
      const bool gate = source >= 4 && source < 7;
      if (!gate || summed >> source & 1 || parts.gates_read(source) > 1) continue;
      unsigned &first = parts.contexts[outer], &second = parts.contexts[source - 4];
      if (first > second) std::swap(first, second);
    }
  }
}

inline Code sorted_factors(Code code) {
  Parts parts(code);
  sort_factors(parts);
  return parts.code();
}

// The same for every cell that computes the same function by the laws of + and *, and for no other.
inline Code functional_key(Code code) {
  Parts parts(code);
  follow_alias(parts);
  flatten_sums(parts);
  const Code flat = parts.code();
  return std::min(sorted_factors(flat), sorted_factors(twin(flat)));
}

}  // namespace fastcell
