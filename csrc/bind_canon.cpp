// Python's view of canon.h.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <string>

#include "canon.h"

namespace py = pybind11;

namespace {

using Triples = std::vector<std::array<std::uint32_t, 3>>;

// Little-endian on every machine, since the bytes are hashed.
std::string to_bytes(const std::vector<std::uint32_t>& words) {
  std::string bytes;
  bytes.reserve(4 * words.size());
  for (std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

py::object form_as_bytes(const std::vector<std::uint32_t>& colours, const Triples& triples,
                         std::uint64_t budget) {
  std::vector<fastcell::Edge> edges;
  edges.reserve(triples.size());
  for (const auto& [from, to, label] : triples) edges.push_back({from, to, label});
  std::optional<std::vector<std::uint32_t>> form;
  {
    py::gil_scoped_release release;
    form = fastcell::canonical_form(colours, edges, budget);
  }
  return form ? py::bytes(to_bytes(*form)) : py::object(py::none());
}

}  // namespace

namespace fastcell {

void bind_canon(py::module_& module) {
  module.def(
      "canonical_form", &form_as_bytes, py::arg("colours"), py::arg("edges"), py::arg("budget"),
      "The canonical form of a graph as bytes; None when it takes more than `budget` steps.");
}

}  // namespace fastcell
