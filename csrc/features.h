// A cell as a row of numbers, for a model that predicts how well it trains.
//
// Names and values come from one walk over the cell, so that no column can be named after another.
// fastcell/features.py says what the columns mean.
#pragma once

#include <cmath>
#include <string>

#include "functional.h"
#include "stratum.h"

namespace fastcell {

constexpr std::array<const char*, 8> kSources = {"x",     "h",     "c",     "g",
                                                 "gate0", "gate1", "gate2", "add"};
constexpr int kStates = 2, kBases = 4;  // h, c; and what paths start from: x, h, c, g

// Takes values, one float a column.
struct RowWriter {
  float* next;
  template <class... Name>
  void operator()(float value, Name...) {
    *next++ = value;
  }
};

// Takes names, their parts put together.
struct NameWriter {
  std::vector<std::string> names;
  template <class... Name>
  void operator()(float, Name... parts) {
    std::string name;
    ((name += parts), ...);
    names.push_back(name);
  }
};

// What reaches each value along its sums: how often, if a gate lets through `open` of its value and
// a tanh `slope` of its argument.
struct Paths {
  std::array<std::array<float, kBases>, 8> sources{};
  std::array<std::array<float, kBases>, kStates> outputs{};

  Paths(const Parts& parts, const std::array<int, kInternal>& order, float open, float slope) {
    for (int base = 0; base < kBases; ++base) sources[base][base] = 1;
    for (int node : order) {
      if (node == 3) {
        sources[7] = sum(parts.add);
      } else {
        const float factor = node == 2 ? open * slope : open;
        for (int base = 0; base < kBases; ++base)
          sources[4 + node][base] = factor * sources[parts.values[node]][base];
      }
    }
    for (int i = 0; i < kStates; ++i) outputs[i] = sum(parts.outputs[i]);
  }

  std::array<float, kBases> sum(unsigned mask) const {
    std::array<float, kBases> total{};
    for (int source = 0; source < 8; ++source)
      if (mask >> source & 1)
        for (int base = 0; base < kBases; ++base) total[base] += sources[source][base];
    return total;
  }

  // The growth of the states in a step: the largest eigenvalue of their matrix, which has no
  // negative element.
  float growth() const {
    const float hh = outputs[0][1], hc = outputs[0][2], ch = outputs[1][1], cc = outputs[1][2];
    return (hh + cc + std::sqrt((hh - cc) * (hh - cc) + 4 * hc * ch)) / 2;
  }
};

// Along any way, through contexts too: what each value depends on, and how deep it lies.
struct Reach {
  std::array<unsigned, 8> bases{}, deepest{}, shallowest{};
  std::array<bool, 8> bounded{};

  Reach(const Parts& parts, const std::array<int, kInternal>& order) {
    for (int base = 0; base < 3; ++base) bases[base] = 1u << base;
    bases[3] = 3, deepest[3] = shallowest[3] = 1;
    bounded[0] = bounded[3] = true;
    for (int node : order) {
      const int self = 4 + node;
      const unsigned read = node == 3 ? parts.add : parts.contexts[node] | 1u << parts.values[node];
      join(read, bases[self], deepest[self], shallowest[self]);
      ++deepest[self], ++shallowest[self];
      bounded[self] =
          node == 2 || (node == 3 ? all_bounded(parts.add) : bounded[parts.values[node]]);
    }
  }

  void join(unsigned mask, unsigned& reached, unsigned& most, unsigned& least) const {
    reached = most = 0, least = 99;
    for (int source = 0; source < 8; ++source) {
      if (!(mask >> source & 1)) continue;
      reached |= bases[source];
      most = std::max(most, deepest[source]);
      least = std::min(least, shallowest[source]);
    }
  }

  bool all_bounded(unsigned mask) const {
    for (int source = 0; source < 8; ++source)
      if (mask >> source & 1 && !bounded[source]) return false;
    return true;
  }
};

// The columns that spell the code out.
template <class Sink>
void write_code(const Parts& parts, const std::array<int, kInternal>& order, Sink& sink) {
  for (int gate = 0; gate < kGates; ++gate) {
    for (int s = 0; s < 8; ++s)
      sink(parts.contexts[gate] >> s & 1, kSources[4 + gate], " reads ", kSources[s]);
    for (int s = 0; s < 8; ++s)
      sink(parts.values[gate] == unsigned(s), kSources[4 + gate], " carries ", kSources[s]);
  }
  for (int s = 0; s < 8; ++s) sink(parts.add >> s & 1, "add sums ", kSources[s]);
  for (int i = 0; i < kStates; ++i)
    for (int s = 0; s < 8; ++s)
      sink(parts.outputs[i] >> s & 1, kSources[1 + i], "' sums ", kSources[s]);
  for (int node = 0; node < kInternal; ++node)
    sink(std::find(order.begin(), order.end(), node) - order.begin(), "place of ",
         kSources[4 + node]);
}

template <class Sink>
void write_paths(const Parts& parts, const std::array<int, kInternal>& order, Sink& sink) {
  struct {
    const char* name;
    float open, slope;
  } kinds[] = {{"additive", 0, 0},
               {"half open", .5f, 0},
               {"open", 1, 0},
               {"half open with tanh", .5f, 1},
               {"open with tanh", 1, 1}};
  for (const auto& kind : kinds) {
    const Paths paths(parts, order, kind.open, kind.slope);
    for (int i = 0; i < kStates; ++i)
      for (int base = 0; base < kBases; ++base)
        sink(paths.outputs[i][base], kind.name, " paths ", kSources[base], " to ", kSources[1 + i],
             "'");
    sink(paths.growth(), kind.name, " growth");
  }
}

template <class Sink>
void write_reach(const Parts& parts, const std::array<int, kInternal>& order, Sink& sink) {
  const Reach reach(parts, order);
  for (int i = 0; i < kStates; ++i) {
    unsigned bases, most, least;
    reach.join(parts.outputs[i], bases, most, least);
    for (int base = 0; base < 3; ++base)
      sink(bases >> base & 1, kSources[base], " reaches ", kSources[1 + i], "'");
    sink(most, "depth of ", kSources[1 + i], "'");
    sink(least, "shortest way to ", kSources[1 + i], "'");
    sink(reach.all_bounded(parts.outputs[i]), "bounded ", kSources[1 + i], "'");
    sink(__builtin_popcount(parts.outputs[i]), "terms of ", kSources[1 + i], "'");
  }
}

template <class Sink>
void write_uses(const Parts& parts, Sink& sink) {
  for (int s = 0; s < 8; ++s) {
    int contexts = 0, values = 0;
    for (int gate = 0; gate < kGates; ++gate) {
      contexts += parts.contexts[gate] >> s & 1;
      values += parts.values[gate] == unsigned(s);
    }
    const unsigned summed = parts.add >> s & 1;
    sink(contexts, "contexts of ", kSources[s]);
    sink(values, "gates on ", kSources[s]);
    sink(contexts + values + summed + (parts.outputs[0] >> s & 1) + (parts.outputs[1] >> s & 1),
         "uses of ", kSources[s]);
  }
}

// Every column of a canonical code, in order.
template <class Sink>
void write_features(Code code, int order, Sink& sink) {
  const Parts parts(code);
  const auto& nodes = orders()[size_t(order)];
  write_code(parts, nodes, sink);
  write_paths(parts, nodes, sink);
  write_reach(parts, nodes, sink);
  write_uses(parts, sink);
}

inline std::vector<std::string> feature_names() {
  NameWriter names;
  write_features(0, 0, names);
  return names.names;
}

}  // namespace fastcell
