// Colour refinement: the cells of a partition split until all vertices of one see every cell alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "canon.h"

namespace fastcell {

using Vertex = std::uint32_t;
using Words = std::vector<std::uint32_t>;

struct Exhausted {};

class Budget {
 public:
  explicit Budget(std::uint64_t steps) : left_(steps) {}
  void spend(std::uint64_t steps) {
    if (steps > left_) throw Exhausted();
    left_ -= steps;
  }

 private:
  std::uint64_t left_;
};

// The finaliser of SplitMix64.
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9E37'79B9'7F4A'7C15;
  z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9;
  z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EB;
  return z ^ z >> 31;
}

// One end of an edge, as the other sees it.
struct Arc {
  Vertex to;
  std::uint32_t kind;  // label << 1 | incoming

  bool incoming() const { return kind & 1; }
  std::uint32_t label() const { return kind >> 1; }
};

class Graph {
 public:
  struct Arcs {
    const Arc *first, *last;
    const Arc* begin() const { return first; }
    const Arc* end() const { return last; }
  };

  Graph(std::size_t size, const std::vector<Edge>& edges)
      : first_(size + 1), arcs_(2 * edges.size()) {
    for (const Edge& edge : edges) {
      ++first_[edge.from];
      ++first_[edge.to];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    for (const Edge& edge : edges) {
      arcs_[--first_[edge.from]] = {edge.to, edge.label << 1};
      arcs_[--first_[edge.to]] = {edge.from, edge.label << 1 | 1};
    }
  }

  Vertex size() const { return static_cast<Vertex>(first_.size() - 1); }
  std::size_t cost() const { return first_.size() + arcs_.size(); }
  Arcs arcs(Vertex v) const { return {arcs_.data() + first_[v], arcs_.data() + first_[v + 1]}; }

 private:
  Words first_;
  std::vector<Arc> arcs_;
};

// Vertices in cells, the cells in order; a cell is named by the position of its first vertex.
struct Partition {
  Words order;  // the vertices, cell by cell
  Words place;  // of a vertex in `order`
  Words cell;   // of a vertex
  Words size;   // of a cell
  Vertex cells = 0;

  explicit Partition(const Words& colours)
      : order(colours.size()), place(order), cell(order), size(order) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](Vertex a, Vertex b) { return colours[a] < colours[b]; });
    Vertex start = 0;
    for (Vertex i = 0; i < order.size(); ++i) {
      const Vertex v = order[i];
      if (i == 0 || colours[v] != colours[order[i - 1]]) start = i, ++cells;
      place[v] = i;
      cell[v] = start;
      ++size[start];
    }
  }

  bool discrete() const { return cells == order.size(); }

  void move(Vertex v, Vertex position) {
    const Vertex other = order[position];
    std::swap(order[place[v]], order[position]);
    place[other] = place[v];
    place[v] = position;
  }

  // Gives v a cell of its own, before the rest of its cell.
  void individualise(Vertex v) {
    const Vertex start = cell[v];
    move(v, start);
    size[start + 1] = size[start] - 1;
    size[start] = 1;
    ++cells;
    for (Vertex i = start + 1; i <= start + size[start + 1]; ++i) cell[order[i]] = start + 1;
  }

  Words starts() const {
    Words result;
    for (Vertex start = 0; start < order.size(); start += size[start]) result.push_back(start);
    return result;
  }
};

class Refinement {
 public:
  Refinement(const Graph& graph, Partition& cells)
      : graph_(graph),
        cells_(cells),
        weight_(graph.size()),
        touched_(graph.size()),
        waiting_(graph.size()) {}

  // Splits cells by how they see those given, and on, until nothing splits. Returns the trace: a
  // number that isomorphic graphs share.
  std::uint64_t run(const Words& splitters, Budget& budget) {
    for (Vertex start : splitters) enqueue(start);
    for (std::size_t i = 0; i < queue_.size() && !cells_.discrete(); ++i) {
      waiting_[queue_[i]] = false;
      budget.spend(weigh(queue_[i]));
      std::sort(seeing_.begin(), seeing_.end());
      for (Vertex start : seeing_) split(start);
      seeing_.clear();
    }
    budget.spend(graph_.size());
    return trace_;
  }

 private:
  void enqueue(Vertex start) {
    queue_.push_back(start);
    waiting_[start] = true;
  }

  // Adds up what each vertex sees in one cell; returns the number of arcs.
  std::size_t weigh(Vertex start) {
    std::size_t count = 0;
    const auto first = cells_.order.begin() + start;
    members_.assign(first, first + cells_.size[start]);
    for (Vertex v : members_) {
      for (const Arc& arc : graph_.arcs(v)) {
        touch(arc.to);
        weight_[arc.to] += mix(arc.kind);
        ++count;
      }
    }
    return count;
  }

  // Vertices that have been seen gather at the end of their cell.
  void touch(Vertex v) {
    const Vertex start = cells_.cell[v], end = start + cells_.size[start];
    if (cells_.place[v] >= end - touched_[start]) return;
    if (touched_[start]++ == 0) seeing_.push_back(start);
    cells_.move(v, end - touched_[start]);
  }

  void split(Vertex start) {
    sort_by_weight(start);
    if (parts_.size() == 1) return;
    Vertex end = start + cells_.size[start], largest = start, most = 0;
    for (auto part = parts_.rbegin(); part != parts_.rend(); end = *part++) {
      const Vertex size = cells_.size[*part] = end - *part;
      if (size >= most) largest = *part, most = size;
      // The first part keeps its name, so that only what was touched is visited.
      for (Vertex i = *part; *part != start && i < end; ++i) cells_.cell[cells_.order[i]] = *part;
    }
    cells_.cells += static_cast<Vertex>(parts_.size()) - 1;
    // What is seen in one part follows from the others and the whole (Hopcroft).
    const Vertex follows = waiting_[start] ? start : largest;
    for (Vertex part : parts_) {
      if (part != follows) enqueue(part);
    }
  }

  // Sorts the touched end of a cell; finds where each run of equals starts, the untouched first.
  void sort_by_weight(Vertex start) {
    auto& order = cells_.order;
    const Vertex end = start + cells_.size[start], from = end - touched_[start];
    touched_[start] = 0;
    if (end - from > 1) {
      std::sort(order.begin() + from, order.begin() + end,
                [&](Vertex a, Vertex b) { return weight_[a] < weight_[b]; });
    }
    parts_.assign(from > start ? 1 : 0, start);
    for (Vertex i = from; i < end; ++i) {
      cells_.place[order[i]] = i;
      if (i > from && weight_[order[i]] == weight_[order[i - 1]]) continue;
      parts_.push_back(i);
      trace_ = mix(trace_ ^ i) + weight_[order[i]];
    }
    for (Vertex i = from; i < end; ++i) weight_[order[i]] = 0;
  }

  const Graph& graph_;
  Partition& cells_;
  std::vector<std::uint64_t> weight_;  // of a vertex, as the cell at hand sees it
  Words touched_;                      // how many of a cell are seen
  Words queue_, members_, seeing_, parts_;
  std::vector<bool> waiting_;
  std::uint64_t trace_ = 0;
};

}  // namespace fastcell
