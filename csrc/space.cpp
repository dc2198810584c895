#include "space.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "stratum.h"

namespace fastcell {
namespace {

constexpr std::array<const char*, kNodes> kNames = {"gate0", "gate1", "gate2", "add", "h'", "c'"};
constexpr Links kBroken = 0x8000;  // in the links of a gate that is none
constexpr std::uint8_t kCyclic = 255;
constexpr int kRoots = 12;  // links of h' and c' together: four bits above the internal ones

int bits(unsigned mask) { return __builtin_popcount(mask); }

// The share of one node's field in the links: three bits an internal node, four for both outputs.
Links links_of(int node, unsigned field) {
  const unsigned internal = sources(node, field) >> 4;
  if (node >= kInternal) return internal << kRoots;
  const unsigned below = internal & ((1u << node) - 1), above = internal >> (node + 1) << node;
  return (below | above) << 3 * node;
}

// What an internal node reads of the four.
unsigned internal_reads(Links links, int node) {
  const unsigned others = links >> 3 * node & 7, low = (1u << node) - 1;
  return (others & low) | (others & ~low) << 1;
}

std::uint8_t smallest_order(Links links) {
  std::array<int, kInternal> order;
  unsigned placed = 0;
  for (int& next : order) {
    next = 0;
    while (next < kInternal && (placed >> next & 1 || internal_reads(links, next) & ~placed))
      ++next;
    if (next == kInternal) return kCyclic;
    placed |= 1u << next;
  }
  return std::find(orders().begin(), orders().end(), order) - orders().begin();
}

// The internal nodes that the roots reach.
unsigned reached(Links links, unsigned roots) {
  for (unsigned before = 0; before != roots;) {
    before = roots;
    for (int node = 0; node < kInternal; ++node)
      if (before >> node & 1) roots |= internal_reads(links, node);
  }
  return roots;
}

void check_reads(const Space::Reads& reads) {
  Code widest = 0;  // the masks in their places
  unsigned present = 15;
  for (int node = 0; node < kNodes; ++node) {
    widest |= Code{reads[node]} << kShift[node];
    if (node < kInternal && reads[node]) present |= 16u << node;
  }
  if (twin(widest) != widest) throw std::invalid_argument("gate0 and gate1 must read alike");
  for (int node = 0; node < kNodes; ++node)
    if (reads[node] & (~present | (node < kInternal ? 16u << node : 0)))
      throw std::invalid_argument(std::string(kNames[node]) + " may not read itself or the absent");
}

}  // namespace

bool Space::fits(int node, unsigned field) const {
  if (!reads_[node]) return field == 0;
  if (node < kGates && bits(field & 255) != 2) return false;
  return field && !(sources(node, field) & ~reads_[node]);
}

Space::Space(const Reads& reads) : reads_(reads), forbidden_(~Code{0} << kShift[kNodes]) {
  check_reads(reads);
  absent_add_ = reads[3] ? 0 : 1;
  unsigned present = 0;
  for (int node = 0; node < kInternal; ++node) present |= (reads[node] != 0) << node;
  for (int node = kGates; node < kNodes; ++node)
    forbidden_ |= Code(~reads[node] & 255u) << kShift[node];
  for (int gate = 0; gate < kGates; ++gate)
    for (unsigned field = 0; field < 2048; ++field)
      gate_links_[gate][field] = fits(gate, field) ? links_of(gate, field) : kBroken;
  for (Links links = 0; links < 4096; ++links) {
    order_[links] = smallest_order(links);
    live_[links] = 0;
    for (unsigned roots = 0; order_[links] != kCyclic && roots < 16; ++roots)
      live_[links] |= ((reached(links, roots) & present) == present) << roots;
  }
}

Links Space::links(Code code) const {
  return gate_links_[0][field(code, 0)] | gate_links_[1][field(code, 1)] |
         gate_links_[2][field(code, 2)] | links_of(3, field(code, 3) & 127);
}

bool Space::live(Code code) const {
  const unsigned roots = (field(code, 4) | field(code, 5)) >> 4;
  return live_[links(code) % 4096] >> roots & 1;
}

bool Space::valid(Code code) const {
  const Code sums = code >> kShift[3] | absent_add_;
  const Code empty = (sums - 0x010101) & ~sums & 0x808080;  // a byte that is zero
  return !(code & forbidden_) && !empty && links(code) < kBroken && live(code);
}

std::string Space::broken_rule(Code code) const {
  if (code >> kShift[kNodes]) return "it has bits above the 57 of a code";
  for (int node = 0; node < kNodes; ++node) {
    const std::string name = kNames[node];
    const unsigned own = field(code, node);
    if (fits(node, own)) continue;
    if (node < kGates && bits(own & 255) != 2)
      return name + " has " + std::to_string(bits(own & 255)) + " context(s), not 2";
    if (node < kInternal && sources(node, own) >> (node + 4) & 1) return name + " reads itself";
    return name + (own ? " reads what this space does not let it read" : " sums nothing");
  }
  if (order_[links(code)] == kCyclic) return "its gates and Add form a cycle";
  const unsigned roots = (field(code, 4) | field(code, 5)) >> 4;
  for (int node = 0; node < kInternal; ++node)
    if (reads_[node] && !(reached(links(code), roots) >> node & 1))
      return std::string(kNames[node]) + " reaches neither h' nor c'";
  return "";
}

namespace {

// Partial cells counted by all that matters: their links, and how they compare with their twin.
using Tally = std::map<std::pair<Links, int>, std::uint64_t>;

int side(Code code) { return (code > twin(code)) - (code < twin(code)); }

Tally tally_node(const Stratum& stratum, int node) {
  Tally tally;
  for (unsigned field : stratum.choices(node))
    ++tally[{links_of(node, field), side(Code{field} << kShift[node])}];
  return tally;
}

// gate0 and gate1 at once: the twin of one is the other.
Tally tally_pair(const Stratum& stratum) {
  Tally tally;
  for (unsigned one : stratum.choices(0))
    for (unsigned two : stratum.choices(1))
      ++tally[{links_of(0, one) | links_of(1, two), side(one | Code{two} << kShift[1])}];
  return tally;
}

// Every way to put the two parts together; the higher bits decide the comparison.
Tally operator*(const Tally& high, const Tally& low) {
  Tally tally;
  for (const auto& [a, count_a] : high)
    for (const auto& [b, count_b] : low)
      tally[{a.first | b.first, a.second ? a.second : b.second}] += count_a * count_b;
  return tally;
}

// SplitMix64 (Steele, Lea and Flood 2014), one stream for each (seed, order).
class Words {
 public:
  Words(std::uint64_t seed, int order) : state_(mix(mix(seed) + order)) {}
  std::uint64_t next() { return mix(state_ += 0x9E37'79B9'7F4A'7C15); }

 private:
  static std::uint64_t mix(std::uint64_t word) {
    word = (word ^ word >> 30) * 0xBF58'476D'1CE4'E5B9;
    word = (word ^ word >> 27) * 0x94D0'49BB'1331'11EB;
    return word ^ word >> 31;
  }
  std::uint64_t state_;
};

// A hash set of at most `capacity` codes, at most two thirds full; 0 is no cell and marks a gap.
class Seen {
 public:
  explicit Seen(std::size_t capacity) {
    while ((std::size_t{1} << (64 - shift_)) < capacity + capacity / 2) --shift_;
    slots_.resize(std::size_t{1} << (64 - shift_));
  }

  // Whether the code is new.
  bool insert(Code code) {
    std::size_t slot = code * 0x9E37'79B9'7F4A'7C15 >> shift_;
    while (slots_[slot] && slots_[slot] != code) slot = (slot + 1) & (slots_.size() - 1);
    return std::exchange(slots_[slot], code) != code;
  }

 private:
  int shift_ = 63;
  std::vector<Code> slots_;
};

// Whether a cell of a stratum stands for its class. `&` and not `&&`: see below.
bool accepts(const Space& space, Code code) { return (code <= twin(code)) & space.live(code); }

// The next few draws that are accepted. Two in three are not, and a branch on which would cost more
// than the draw, so every one is written and only the accepted ones advance.
std::array<Code, 256> accepted(const Space& space, const Stratum& stratum, Words& words) {
  std::array<Code, 256> block;
  for (std::size_t count = 0; count < block.size(); count += accepts(space, block[count]))
    block[count] = stratum.draw(words);
  return block;
}

}  // namespace

const std::array<std::uint64_t, kOrders>& Space::strata() const {
  std::call_once(counted_, [this] {
    for (int order = 0; order < kOrders; ++order) {
      const Stratum stratum(*this, order);
      Tally cells = tally_node(stratum, 5) * tally_node(stratum, 4);
      cells = cells * tally_node(stratum, 3) * tally_node(stratum, 2) * tally_pair(stratum);
      strata_[order] = 0;
      for (const auto& [key, count] : cells) {
        const bool live = live_[key.first % 4096] >> (key.first >> kRoots) & 1;
        if (live && key.second <= 0) strata_[order] += count;
      }
    }
  });
  return strata_;
}

std::vector<Code> Space::list(int order) const {
  const Stratum stratum(*this, order);
  if (stratum.size() >> 32)
    throw std::invalid_argument("an order of this space is too long to list");
  std::vector<Code> codes;
  for (std::uint64_t number = 0; number < stratum.size(); ++number)
    if (const Code code = stratum.cell(number); accepts(*this, code)) codes.push_back(code);
  return codes;
}

void Space::sample(std::size_t n, std::uint64_t seed, int orders, int threads, Code* codes) const {
  const int used = static_cast<int>(std::min<std::size_t>(orders, n));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int order = 0; order < used; ++order) {
    const Stratum stratum(*this, order);
    Words words(seed, order);
    Seen seen(n / orders + 1);
    for (std::size_t i = order; i < n;) {
      for (const Code code : accepted(*this, stratum, words)) {
        if (i >= n || !seen.insert(code)) continue;
        codes[i] = code;
        i += orders;
      }
    }
  }
}

}  // namespace fastcell
