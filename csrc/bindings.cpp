// The Python module fastcell._C: NumPy arrays in and out, the interpreter's lock released
// meanwhile.
#include <omp.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <vector>

#include "features.h"
#include "functional.h"
#include "space.h"

namespace py = pybind11;

namespace {

using fastcell::Code;
using fastcell::Space;
using Codes = py::array_t<std::int64_t, py::array::c_style>;

// f(code) for each code, as an array of the same length.
template <class Out, class Function>
py::array_t<Out> map_codes(const Codes& codes, Function f) {
  py::array_t<Out> result(codes.size());
  const std::int64_t* in = codes.data();
  Out* out = result.mutable_data();
  const py::ssize_t n = codes.size();
  py::gil_scoped_release release;
  for (py::ssize_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(static_cast<Code>(in[i])));
  return result;
}

Codes sample(const Space& space, std::size_t n, std::uint64_t seed, int orders, int threads) {
  Codes result(n);
  auto* out = reinterpret_cast<Code*>(result.mutable_data());
  py::gil_scoped_release release;
  space.sample(n, seed, orders, threads ? threads : omp_get_max_threads(), out);
  return result;
}

Codes listed(const Space& space, int order) {
  std::vector<Code> codes;
  {
    py::gil_scoped_release release;
    codes = space.list(order);
  }
  return Codes(codes.size(), reinterpret_cast<const std::int64_t*>(codes.data()));
}

// A row of features for each code.
py::array_t<float> features(const Space& space, const Codes& codes) {
  const py::ssize_t n = codes.size(), width = py::ssize_t(fastcell::feature_names().size());
  py::array_t<float> result({n, width});
  const std::int64_t* in = codes.data();
  float* out = result.mutable_data();
  py::gil_scoped_release release;
  for (py::ssize_t i = 0; i < n; ++i) {
    const Code code = fastcell::canonical(static_cast<Code>(in[i]));
    fastcell::RowWriter row{out + i * width};
    fastcell::write_features(code, space.order(code), row);
  }
  return result;
}

void bind_space(py::module_& module) {
  using namespace py::literals;
  py::class_<Space>(module, "Space")
      .def(py::init<const Space::Reads&>(), "reads"_a)
      .def(
          "valid",
          [](const Space& space, const Codes& codes) {
            return map_codes<bool>(codes, [&](Code code) { return space.valid(code); });
          },
          "codes"_a.noconvert())
      .def(
          "broken_rule", [](const Space& s, std::int64_t code) { return s.broken_rule(code); },
          "code"_a)
      .def(
          "order",
          [](const Space& space, const Codes& codes) {
            return map_codes<std::int64_t>(
                codes, [&](Code code) { return space.order(fastcell::canonical(code)); });
          },
          "codes"_a.noconvert())
      .def("features", &features, "codes"_a.noconvert())
      .def("strata", &Space::strata, py::call_guard<py::gil_scoped_release>())
      .def("listed", &listed, "order"_a)
      .def("sample", &sample, "n"_a, "seed"_a, "orders"_a, "threads"_a);
  module.def("feature_names", &fastcell::feature_names);
  module.def(
      "canonicalize",
      [](const Codes& codes) { return map_codes<std::int64_t>(codes, fastcell::canonical); },
      "codes"_a.noconvert());
  module.def(
      "is_canonical",
      [](const Codes& codes) {
        return map_codes<bool>(codes, [](Code code) { return code <= fastcell::twin(code); });
      },
      "codes"_a.noconvert());
  module.def(
      "functional_key",
      [](const Codes& codes) { return map_codes<std::int64_t>(codes, fastcell::functional_key); },
      "codes"_a.noconvert());
}

}  // namespace

namespace fastcell {
void bind_canon(py::module_& module);
void bind_forest(py::module_& module);
void bind_scan(py::module_& module);
}  // namespace fastcell

PYBIND11_MODULE(_C, module) {
  module.doc() = "The C++ core of fastcell.";
  bind_space(module);
  fastcell::bind_canon(module);
  fastcell::bind_forest(module);
  fastcell::bind_scan(module);
}
