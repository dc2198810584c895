// The cells of one order as numbers: what counting, listing and sampling walk through.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "space.h"

namespace fastcell {

// The 24 permutations of the internal nodes, in lexicographic order.
inline const std::array<std::array<int, kInternal>, kOrders>& orders() {
  static const auto table = [] {
    std::array<std::array<int, kInternal>, kOrders> all;
    std::array<int, kInternal> order = {0, 1, 2, 3};
    for (auto& entry : all) {
      entry = order;
      std::next_permutation(order.begin(), order.end());
    }
    return all;
  }();
  return table;
}

// The cells of one order, names and all: each node in turn reads only what comes before it. A node
// that the order puts after a greater one must need that place, or it would have come earlier.
class Stratum {
 public:
  Stratum(const Space& space, int order) {
    unsigned available = 15;  // sources: the inputs
    const auto& sequence = orders()[order];
    for (int place = 0; place < kInternal; ++place) {
      unsigned needed = 0;  // one of these
      for (int i = place - 1; i >= 0; --i) {
        needed |= 16u << sequence[i];
        if (sequence[i] > sequence[place]) break;
        if (i == 0) needed = 0;
      }
      fill(space, sequence[place], available, needed);
      available |= 16u << sequence[place];
    }
    for (int node = kInternal; node < kNodes; ++node) fill(space, node, available, 0);
    excess_ = size() ? -size() % size() : 0;
  }

  const std::vector<std::uint16_t>& choices(int node) const { return choices_[node]; }

  std::uint64_t size() const {
    std::uint64_t product = 1;
    for (const auto& fields : choices_) product *= fields.size();
    return product;
  }

  // Cell `number` of the stratum; nodes are digits, gate0 the lowest.
  Code cell(std::uint64_t number) const {
    Code code = 0;
    for (int node = 0; node < kNodes; ++node) {
      const auto& fields = choices_[node];
      code |= Code{fields[number % fields.size()]} << kShift[node];
      number /= fields.size();
    }
    return code;
  }

  // A uniform cell: the word as a fraction, whose digits come off one by one. Exact, since the few
  // words that would make some cells likelier are passed over. (Lemire, "Fast random integer
  // generation in an interval", 2019.)
  template <class Words>
  Code draw(Words& words) const {
    for (;;) {
      std::uint64_t rest = words.next();
      Code code = 0;
      for (int node = 0; node < kNodes; ++node) {
        const auto& fields = choices_[node];
        const auto product = static_cast<unsigned __int128>(rest) * fields.size();
        code |= Code{fields[product >> 64]} << kShift[node];
        rest = static_cast<std::uint64_t>(product);
      }
      if (rest >= excess_) return code;
    }
  }

 private:
  void fill(const Space& space, int node, unsigned available, unsigned needed) {
    for (unsigned field = 0; field < (node < kGates ? 2048 : 256); ++field) {
      const unsigned read = sources(node, field);
      const bool in_place = !(read & ~available) && (!needed || read & needed);
      if (in_place && space.fits(node, field)) choices_[node].push_back(field);
    }
  }

  std::array<std::vector<std::uint16_t>, kNodes> choices_;
  std::uint64_t excess_;  // 2^64 modulo size
};

}  // namespace fastcell
