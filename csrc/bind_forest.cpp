// The Python class fastcell._C.Forest.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "forest.h"

namespace py = pybind11;

namespace fastcell {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::vector<T> copied(const Array<T>& array) {
  return std::vector<T>(array.data(), array.data() + array.size());
}

// thresholds (nodes,), columns (nodes,), children (nodes, 2).
std::vector<TreeNode> make_nodes(const Array<float>& thresholds, const Array<std::int32_t>& columns,
                                 const Array<std::int32_t>& children) {
  if (columns.size() != thresholds.size() || children.size() != 2 * thresholds.size())
    throw py::value_error("forest: expected arrays that fit each other");
  std::vector<TreeNode> nodes(thresholds.size());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    nodes[i] = {thresholds.data()[i], columns.data()[i], children.data()[2 * i],
                children.data()[2 * i + 1]};
  return nodes;
}

py::array_t<float> evaluate(const Forest& forest, const Array<float>& rows) {
  if (rows.ndim() != 2 || rows.shape(1) != forest.columns())
    throw py::value_error("forest: expected rows of " + std::to_string(forest.columns()) +
                          " columns");
  py::array_t<float> result({rows.shape(0), py::ssize_t(forest.width())});
  float* out = result.mutable_data();
  const std::size_t n = rows.shape(0);
  py::gil_scoped_release release;
  forest.evaluate(rows.data(), n, out);
  return result;
}

}  // namespace

void bind_forest(py::module_& module) {
  using namespace py::literals;
  py::class_<Forest>(module, "Forest")
      .def(py::init([](const Array<float>& thresholds, const Array<std::int32_t>& columns,
                       const Array<std::int32_t>& children, const Array<float>& values,
                       const Array<std::int32_t>& roots, const Array<std::int32_t>& outputs,
                       std::int32_t width) {
             return Forest(make_nodes(thresholds, columns, children), copied(values), copied(roots),
                           copied(outputs), width);
           }),
           "thresholds"_a.noconvert(), "columns"_a.noconvert(), "children"_a.noconvert(),
           "values"_a.noconvert(), "roots"_a.noconvert(), "outputs"_a.noconvert(), "width"_a)
      .def("evaluate", &evaluate, "rows"_a.noconvert());
}

}  // namespace fastcell
