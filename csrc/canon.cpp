#include "canon.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "refine.h"

namespace fastcell {
namespace {

constexpr int kMaxDepth = 250;      // nested searches; each holds a copy of its component
constexpr std::uint64_t kKept = 8;  // steps that a remembered word costs: they bound the memory too

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

// The edges that the cells do not imply: those between two cells that are not joined all to all,
// alike.
std::vector<Edge> open_edges(const Graph& graph, const Partition& cells) {
  struct Join {
    std::uint64_t arcs = 0;
    std::uint32_t kind = 0;
    bool mixed = false;
  };
  std::vector<Edge> edges;
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
      const bool implied = !join.mixed && join.arcs == all;
      if (!implied && !arc.incoming()) edges.push_back({v, arc.to, arc.label()});
    });
    each_arc([](Vertex, const Arc&, Join& join) { join = {}; });
  }
  return edges;
}

// A component: a graph of its own, whose vertices are numbered cell by cell.
struct Component {
  Words members;  // in the graph it was taken from
  Words colours;  // their cells there
  std::vector<Edge> edges;
  Words form;
};

// What the open edges join.
std::vector<Component> fall_apart(const Graph& graph, const Partition& cells) {
  const std::vector<Edge> edges = open_edges(graph, cells);
  DisjointSets sets(graph.size());
  for (const Edge& edge : edges) sets.unite(edge.from, edge.to);
  std::vector<Component> components;
  Words home(graph.size()), index(graph.size());
  std::vector<bool> met(graph.size());
  for (Vertex v : cells.order) {
    const Vertex root = sets.find(v);
    if (!met[root]) {
      met[root] = true;
      home[root] = static_cast<Vertex>(components.size());
      components.emplace_back();
    }
    Component& component = components[home[v] = home[root]];
    index[v] = static_cast<Vertex>(component.members.size());
    component.members.push_back(v);
    component.colours.push_back(cells.cell[v]);
  }
  for (const auto& [from, to, label] : edges) {
    components[home[from]].edges.push_back({index[from], index[to], label});
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
