// The search space of recurrent cells: 57-bit codes, their symmetry, exact counts, exact samples.
//
// Sources: x h c g gate0 gate1 gate2 add, numbered 0..7; the last four are the internal nodes.
// Nodes that read sources: gate0 gate1 gate2 add h' c', numbered 0..5.
//
// Layout of a code, version 1, lowest bit first:
//
//     bits  0-10, 11-21, 22-32   gate0, gate1, gate2: mask of the two contexts (8), value (3)
//     bits 33-40, 41-48, 49-56   add, h', c': mask of what is summed
//
// gate0 and gate1 differ in name only, so a cell has two codes, its own and its twin's; the smaller
// one is canonical. The code is the hash: distinct cells cannot collide.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace fastcell {

using Code = std::uint64_t;
// Which internal nodes read which: three bits a node, one for each of the other three.
using Links = std::uint32_t;

constexpr int kNodes = 6, kInternal = 4, kGates = 3, kOrders = 24;
constexpr std::array<int, kNodes + 1> kShift = {0, 11, 22, 33, 41, 49, 57};

inline unsigned field(Code code, int node) {
  return code >> kShift[node] & ((1u << (kShift[node + 1] - kShift[node])) - 1);
}

// The mask of what a field reads: a gate its contexts and its value, the others what they sum.
inline unsigned sources(int node, unsigned field) {
  return node < kGates ? (field & 255) | 1u << (field >> 8) : field;
}

// The code after gate0 and gate1 have swapped names.
inline Code twin(Code code) {
  constexpr Code gate0_bits = 0x0020'2020'0400'8010;  // of every mask
  constexpr Code value_bits = 0x0000'0000'4008'0100;  // the lowest of every value
  const Code differ = (code ^ code >> 1) & gate0_bits;
  code ^= differ | differ << 1;
  code ^= code >> 2 & ~(code >> 1) & value_bits;  // values 4 = 0b100 and 5 = 0b101
  const Code fields = (code ^ code >> 11) & 0x7FF;
  return code ^ fields ^ fields << 11;
}

inline Code canonical(Code code) { return std::min(code, twin(code)); }

// A set of cells: what each node may read. The whole space reads everything but itself; smaller
// ones, which can be listed, run through the same code.
class Space {
 public:
  using Reads = std::array<std::uint8_t, kNodes>;

  // A gate or an Add that reads nothing is absent. Throws std::invalid_argument when a node reads
  // itself or an absent one, or when gate0 and gate1 are not each other's mirror image.
  explicit Space(const Reads& reads);

  bool valid(Code code) const;
  // What keeps the code from being a cell; empty when it is one.
  std::string broken_rule(Code code) const;
  // The rules that concern one node alone: two contexts, a sum of something, nothing unreadable.
  bool fits(int node, unsigned field) const;
  // Whether every internal node reaches an output; false when they form a cycle.
  bool live(Code code) const;
  // The lexicographically smallest topological order of the internal nodes, as its rank among the
  // 24 permutations of gate0 < gate1 < gate2 < add.
  int order(Code code) const { return order_[links(code)]; }

  // How many cells have each order: a cell is counted at its canonical code.
  const std::array<std::uint64_t, kOrders>& strata() const;
  // The canonical codes of one order, all of them.
  std::vector<Code> list(int order) const;
  // n distinct canonical codes; cell i is uniform among those of order i % orders. The same codes
  // for any number of threads, and a longer sample only adds to a shorter one. Each order must
  // hold its share.
  void sample(std::size_t n, std::uint64_t seed, int orders, int threads, Code* codes) const;

 private:
  Links links(Code code) const;

  Reads reads_;
  Code forbidden_;   // bits that no code of the space has
  Code absent_add_;  // stands for the sum of an Add that the space lacks
  std::array<std::array<std::uint16_t, 2048>, kGates> gate_links_;
  std::array<std::uint16_t, 4096> live_;  // by links: a bit for each set of nodes that outputs read
  std::array<std::uint8_t, 4096> order_;
  mutable std::once_flag counted_;
  mutable std::array<std::uint64_t, kOrders> strata_;
};

}  // namespace fastcell
