// The canonical form of a directed graph with coloured vertices and labelled edges.
//
// Two graphs have the same form exactly when one is the other with its vertices renumbered. How:
//
//     refine      split the cells of like-coloured vertices until all of a cell see every cell
//     alike fall apart  edges that join all of one cell to all of another alike say nothing more;
//     without
//                 them the graph falls into components, each labelled on its own and then sorted
//     search      a component whose cells are still not single: give each vertex of one cell a
//                 colour of its own in turn, go on from there, keep the smallest form
//
// A search tries only the vertices that refine best, one of each orbit of the symmetries it has
// met, and remembers every form it has seen: whatever is isomorphic to an earlier component, two
// branches included, costs one path and not a search. Refinement compares 64-bit sums, which can
// only make it coarser; forms are compared whole.
//
// Source: McKay and Piperno, "Practical graph isomorphism, II", 2014, for refinement, traces and
// orbits; the components and the memory are what cells, made of many like parts, ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace fastcell {

struct Edge {
  std::uint32_t from, to, label;  // label < 2^31
};

// Colours in canonical order, then for each vertex the number of its edges and, ascending, the
// (vertex, label) of each. At most one edge joins two vertices. Nothing when the search would take
// more than `budget` steps (visits of an edge, about 10 ns each). Throws std::invalid_argument when
// an edge ends at no vertex.
std::optional<std::vector<std::uint32_t>> canonical_form(const std::vector<std::uint32_t>& colours,
                                                         const std::vector<Edge>& edges,
                                                         std::uint64_t budget);

}  // namespace fastcell
