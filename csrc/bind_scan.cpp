// Python's view of the tile machine.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>

#include "scan_program.h"

namespace py = pybind11;

namespace fastcell {
namespace {

using namespace py::literals;

template <class T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

Dtype parse_dtype(const std::string& name) {
  if (name == "float32") return Dtype::FLOAT32;
  if (name == "float64") return Dtype::FLOAT64;
  throw std::invalid_argument("dtype: found " + name + ", expected float32 or float64");
}

// An int32 array (rows, fields) as the structs its rows spell out.
template <class Row>
std::vector<Row> rows_of(const Array<int32_t>& array, const std::string& name) {
  constexpr int fields = sizeof(Row) / sizeof(int32_t);
  if (array.ndim() != 2 || array.shape(1) != fields) {
    throw std::invalid_argument(name + ": expected an array (rows, " + std::to_string(fields) +
                                ")");
  }
  std::vector<Row> rows(size_t(array.shape(0)));
  if (!rows.empty()) std::memcpy(rows.data(), array.data(), rows.size() * sizeof(Row));
  return rows;
}

std::unique_ptr<ScanProgram> make_program(const std::string& dtype, int32_t tensors,
                                          const Array<int32_t>& buffers, const Array<int32_t>& code,
                                          bool reverse) {
  return std::make_unique<ScanProgram>(decode(parse_dtype(dtype), tensors, reverse,
                                              rows_of<Buffer>(buffers, "buffers"),
                                              rows_of<Instruction>(code, "code")));
}

std::vector<Tensor> tensors_of(const Array<int64_t>& array) {
  if (array.ndim() != 2 || array.shape(1) != 3) {
    throw std::invalid_argument("tensors: expected an array (tensors, 3)");
  }
  std::vector<Tensor> tensors(size_t(array.shape(0)));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t* row = array.data(py::ssize_t(i), 0);
    tensors[i] = {reinterpret_cast<void*>(row[0]), row[1], row[2]};
  }
  return tensors;
}

Time time_of(int64_t T, int64_t B, bool mirrored, const std::optional<Array<int64_t>>& rows) {
  Time time{T, B, mirrored, {}};
  if (rows) time.rows.assign(rows->data(), rows->data() + rows->size());
  return time;
}

void run(const ScanProgram& program, const Array<int64_t>& tensors, int64_t T, int64_t B,
         int threads, bool mirrored, const std::optional<Array<int64_t>>& rows) {
  std::vector<Tensor> described = tensors_of(tensors);
  Time time = time_of(T, B, mirrored, rows);
  py::gil_scoped_release release;
  program.run(described, time, threads);
}

std::map<std::string, double> profile(const ScanProgram& program, const Array<int64_t>& tensors,
                                      int64_t T, int64_t B, int threads) {
  std::vector<double> seconds(OPCODES);
  program.run(tensors_of(tensors), time_of(T, B, false, {}), threads, seconds.data());
  std::map<std::string, double> named;
  for (int i = 0; i < OPCODES; ++i) {
    if (seconds[size_t(i)] > 0) named[opcode_name(i)] = seconds[size_t(i)];
  }
  return named;
}

// What each gradient reads of its operation: {"tanh": "output", ...}.
py::dict derivative_reads() {
  constexpr const char *x = "input", *y = "output", *none = "nothing";
  py::dict reads;
#define FASTCELL_UNARY(name, value, read, derivative) reads[#name] = read;
#include "ops.def"
  return reads;
}

// The numbers of the encoding by name, so that nobody need repeat them.
void bind_encoding(py::module_& m) {
  py::dict opcodes;
  for (int i = 0; i < OPCODES; ++i) opcodes[opcode_name(i)] = i;
  m.attr("OPCODES") = opcodes;
  m.attr("DERIVATIVE_READS") = derivative_reads();
  m.attr("LANES") = LANES;
  m.attr("KINDS") = py::dict("TILE"_a = int(Kind::TILE), "CHUNK"_a = int(Kind::CHUNK),
                             "CARRY"_a = int(Kind::CARRY), "ROW"_a = int(Kind::ROW),
                             "WEIGHT"_a = int(Kind::WEIGHT), "GRAD"_a = int(Kind::GRAD));
  m.attr("SECTIONS") = py::dict("SETUP"_a = int(Section::SETUP), "PRE"_a = int(Section::PRE),
                                "LOOP"_a = int(Section::LOOP), "POST"_a = int(Section::POST),
                                "FINISH"_a = int(Section::FINISH));
  m.attr("GEMM_MODES") = py::dict("SET"_a = int(SET), "ADD"_a = int(ADD), "BIAS"_a = int(BIAS));
}

}  // namespace

void bind_scan(py::module_& m) {
  bind_encoding(m);
  py::class_<ScanProgram>(m, "ScanProgram", "A compiled Program; csrc/program.h is its encoding.")
      .def(py::init(&make_program), "dtype"_a, "tensors"_a, "buffers"_a, "code"_a, "reverse"_a,
           "dtype float32 or float64; buffers (n, 5) and code (n, 13), int32.")
      .def("run", &run, "tensors"_a, "T"_a, "B"_a, "threads"_a, "mirrored"_a = false,
           "rows"_a = py::none(),
           "tensors (n, 3), int64: address, stride of t, stride of b (of rows), in elements. "
           "mirrored: the recurrence runs from the last step to the first. rows (T,): those that "
           "each step has, falling; a sequence is then (sum of rows, width).")
      .def("profile", &profile, "tensors"_a, "T"_a, "B"_a, "threads"_a,
           "Runs, and returns seconds by opcode, summed over the threads.")
      .def("workspace_bytes", &ScanProgram::workspace_bytes, "T"_a, "B"_a, "threads"_a)
      .def_property_readonly("isa", &ScanProgram::isa);
  m.def("isa", [] { return instruction_set().name; }, "The instruction set of new programs.");
  m.def(
      "isas",
      [] {
        std::vector<std::string> names;
        for (const InstructionSet& set : instruction_sets()) names.push_back(set.name);
        return names;
      },
      "The instruction sets that run here; FASTCELL_ISA names one to use.");
  m.def(
      "fma_peak",
      [](int threads, double seconds, const std::string& dtype) {
        return fma_peak(threads, seconds, parse_dtype(dtype));
      },
      "threads"_a, "seconds"_a = 0.1, "dtype"_a = "float32",
      py::call_guard<py::gil_scoped_release>(),
      "Floating-point operations a second of nothing but multiply-adds.");
}

}  // namespace fastcell
