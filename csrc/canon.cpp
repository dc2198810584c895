#include "canon.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace fastcell {
namespace {

using Vertex = std::uint32_t;
using Words = std::vector<std::uint32_t>;

constexpr int kMaxDepth = 500;       // nested searches; each holds a copy of its component
constexpr std::uint64_t kKept = 8;   // steps that a remembered word costs: they bound the memory too

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
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E37'79B9'7F4A'7C15;
  z = (z ^ z >> 30) * 0xBF58'476D'1CE4'E5B9;
  z = (z ^ z >> 27) * 0x94D0'49BB'1331'11EB;
  return z ^ z >> 31;
}

class DisjointSets {
 public:
  explicit DisjointSets(Vertex size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  Vertex find(Vertex v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void unite(Vertex a, Vertex b) { parent_[find(b)] = find(a); }

 private:
  Words parent_;
};

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
  Words order;          // the vertices, cell by cell
  Words place;          // of a vertex in `order`
  Words cell;           // of a vertex
  Words size;           // of a cell
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
      : graph_(graph), cells_(cells), weight_(graph.size()), touched_(graph.size()),
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

// The graph written in the given order of its vertices.
Words write(const Graph& graph, const Words& colours, const Words& order) {
  Words form, place(order.size());
  form.reserve(2 * graph.cost());
  for (Vertex i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    form.push_back(colours[order[i]]);
  }
  std::vector<std::pair<Vertex, std::uint32_t>> reads;
  for (Vertex v : order) {
    reads.clear();
    for (const Arc& arc : graph.arcs(v)) {
      if (!arc.incoming()) reads.emplace_back(place[arc.to], arc.label());
    }
    std::sort(reads.begin(), reads.end());
    form.push_back(static_cast<std::uint32_t>(reads.size()));
    for (const auto& [to, label] : reads) form.insert(form.end(), {to, label});
  }
  return form;
}

// Sets of vertices with no edge between them but those that the cells imply.
DisjointSets connect(const Graph& graph, const Partition& cells) {
  struct Join {
    std::uint64_t arcs = 0;
    std::uint32_t kind = 0;
    bool mixed = false;
  };
  DisjointSets sets(graph.size());
  std::vector<Join> joins(graph.size());  // of the cell at hand with each other one
  for (Vertex start : cells.starts()) {
    const auto first = cells.order.begin() + start, last = first + cells.size[start];
    const auto each_arc = [&](auto visit) {
      for (auto v = first; v != last; ++v) {
        for (const Arc& arc : graph.arcs(*v)) visit(*v, arc, joins[cells.cell[arc.to]]);
      }
    };
    each_arc([](Vertex, const Arc& arc, Join& join) {
      join.mixed |= join.arcs++ > 0 && join.kind != arc.kind;
      join.kind = arc.kind;
    });
    each_arc([&](Vertex v, const Arc& arc, const Join& join) {
      const std::uint64_t all = std::uint64_t{cells.size[start]} * cells.size[cells.cell[arc.to]];
      if (join.mixed || join.arcs != all) sets.unite(v, arc.to);
    });
    each_arc([](Vertex, const Arc&, Join& join) { join = {}; });
  }
  return sets;
}

// A component: a graph of its own, whose vertices are numbered cell by cell.
struct Component {
  Words members;  // in the graph it was taken from
  Words colours;  // their cells there
  std::vector<Edge> edges;
  Words form;
};

std::vector<Component> fall_apart(const Graph& graph, const Partition& cells) {
  DisjointSets sets = connect(graph, cells);
  std::vector<Component> components;
  Words home(graph.size()), index(graph.size());
  std::vector<bool> met(graph.size());
  for (Vertex v : cells.order) {
    const Vertex root = sets.find(v);
    if (!met[root]) home[root] = static_cast<Vertex>(components.size()), components.emplace_back();
    met[root] = true;
    Component& component = components[home[v] = home[root]];
    index[v] = static_cast<Vertex>(component.members.size());
    component.members.push_back(v);
    component.colours.push_back(cells.cell[v]);
  }
  for (Vertex v = 0; v < graph.size(); ++v) {
    for (const Arc& arc : graph.arcs(v)) {
      if (arc.incoming() || home[arc.to] != home[v]) continue;
      components[home[v]].edges.push_back({index[v], index[arc.to], arc.label()});
    }
  }
  return components;
}

Words pick(const Words& from, const Words& indices) {
  Words result(indices);
  for (auto& index : result) index = from[index];
  return result;
}

Words inverse(const Words& order) {
  Words result(order.size());
  for (Vertex i = 0; i < order.size(); ++i) result[order[i]] = i;
  return result;
}

class Labeller {
 public:
  explicit Labeller(std::uint64_t budget) : budget_(budget) {}

  // The vertices in canonical order.
  Words order(const Graph& graph, const Words& colours) {
    Partition cells(colours);
    Refinement(graph, cells).run(cells.starts(), budget_);
    return order_refined(graph, cells, 0);
  }

 private:
  Words order_refined(const Graph& graph, const Partition& cells, int depth) {
    if (cells.discrete()) return cells.order;
    budget_.spend(graph.cost());
    std::vector<Component> components = fall_apart(graph, cells);
    for (Component& component : components) label(component, depth);
    std::sort(components.begin(), components.end(), [](const Component& a, const Component& b) {
      return std::tie(a.colours, a.form) < std::tie(b.colours, b.form);
    });
    Words order;
    for (const Component& component : components) {
      order.insert(order.end(), component.members.begin(), component.members.end());
    }
    return order;
  }

  // Puts the members in canonical order and writes the form.
  void label(Component& component, int depth) {
    if (component.members.size() == 1) return;
    const Graph graph(component.members.size(), component.edges);
    const Partition cells(component.colours);
    const Words order = cells.discrete() ? cells.order : search(graph, cells, depth + 1);
    component.form = write(graph, cells.cell, order);
    component.members = pick(component.members, order);
  }

  // The canonical order of a component whose cells are not all single.
  Words search(const Graph& graph, const Partition& cells, int depth) {
    if (depth > kMaxDepth) throw Exhausted();
    Words best;
    std::uint64_t least = 0;
    bool recalled = false;
    for (Vertex v : smallest_cell(cells)) {
      Partition finer = cells;
      const std::uint64_t trace = single_out(graph, finer, v);
      // It was the least of some component: if of one like this, v leads to a known form.
      if (!recalled && leasts_.count(trace)) {
        recalled = true;
        const Labelled one = descend(graph, cells, v, depth);
        const auto old = known_.find(one.form);
        if (old != known_.end()) return pick(one.order, old->second);
      }
      if (best.empty() || trace < least) best.clear(), least = trace;
      if (trace == least) best.push_back(v);
    }
    leasts_.insert(least);
    return explore(graph, cells, best, depth);
  }

  // The order that gives the smallest form when one of the candidates is singled out.
  Words explore(const Graph& graph, const Partition& cells, const Words& candidates, int depth) {
    DisjointSets orbits(graph.size());
    std::map<Words, Words> seen;  // form -> order, one of each orbit
    Words tried;
    for (Vertex v : candidates) {
      const auto alike = [&](Vertex u) { return orbits.find(u) == orbits.find(v); };
      if (std::any_of(tried.begin(), tried.end(), alike)) continue;
      tried.push_back(v);
      Labelled one = descend(graph, cells, v, depth);
      const auto old = known_.find(one.form);
      if (old != known_.end()) return pick(one.order, old->second);
      const auto [twin, fresh] = seen.emplace(std::move(one.form), one.order);
      // Two orders of the same form are a symmetry.
      for (Vertex i = 0; !fresh && i < graph.size(); ++i) {
        orbits.unite(twin->second[i], one.order[i]);
      }
    }
    return remember(std::move(seen));
  }

  struct Labelled {
    Words order, form;
  };

  Labelled descend(const Graph& graph, const Partition& cells, Vertex v, int depth) {
    Partition finer = cells;
    single_out(graph, finer, v);
    budget_.spend(graph.cost());
    Words order = order_refined(graph, finer, depth);
    Words form = write(graph, cells.cell, order);
    return {std::move(order), std::move(form)};
  }

  // Returns the trace.
  std::uint64_t single_out(const Graph& graph, Partition& cells, Vertex v) {
    cells.individualise(v);
    return Refinement(graph, cells).run({cells.cell[v]}, budget_);
  }

  // The vertices of the first smallest cell that is not single.
  static Words smallest_cell(const Partition& cells) {
    Vertex found = 0;
    for (Vertex start : cells.starts()) {
      const bool smaller = cells.size[start] < cells.size[found] || cells.size[found] == 1;
      if (cells.size[start] > 1 && smaller) found = start;
    }
    const auto first = cells.order.begin() + found;
    return Words(first, first + cells.size[found]);
  }

  // Returns the order of the smallest form, and keeps the way from each form to it.
  Words remember(std::map<Words, Words> seen) {
    Words best = seen.begin()->second;
    while (!seen.empty()) {
      auto one = seen.extract(seen.begin());
      budget_.spend(kKept * one.key().size());
      one.mapped() = pick(inverse(one.mapped()), best);
      known_.insert(std::move(one));
    }
    return best;
  }

  Budget budget_;
  std::map<Words, Words> known_;    // form of a component -> canonical order of its vertices
  std::set<std::uint64_t> leasts_;  // least traces of the components in known_
};

}  // namespace

std::optional<std::vector<std::uint32_t>> canonical_form(const std::vector<std::uint32_t>& colours,
                                                         const std::vector<Edge>& edges,
                                                         std::uint64_t budget) {
  for (const Edge& edge : edges) {
    if (std::max(edge.from, edge.to) < colours.size()) continue;
    throw std::invalid_argument("an edge must join two of the " + std::to_string(colours.size()) +
                                " vertices, found " + std::to_string(edge.from) + " -> " +
                                std::to_string(edge.to));
  }
  const Graph graph(colours.size(), edges);
  try {
    return write(graph, colours, Labeller(budget).order(graph, colours));
  } catch (const Exhausted&) {
    return std::nullopt;
  }
}

}  // namespace fastcell
