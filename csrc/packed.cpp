#include "packed.h"

#include <cstring>

namespace fastcell {
namespace {

// Calls use(address, bytes) for each contiguous row that PACK reads, until it returns false.
template <class Use>
bool for_rows(const Program& program, const Tensor* tensors, Use use) {
  int64_t size = program.element_bytes();
  for (int32_t i = program.sections[int(Section::SETUP)];
       i < program.sections[int(Section::SETUP) + 1]; ++i) {
    const Instruction& code = program.code[size_t(i)];
    const Tensor& tensor = tensors[code.a.buffer];
    int64_t rows = code.extra1 ? code.width : code.extra0;
    int64_t columns = code.extra1 ? code.extra0 : code.width;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t element = (code.b.buffer + row) * tensor.stride_b + code.b.column;
      if (!use(static_cast<const char*>(tensor.data) + element * size, size_t(columns * size))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

bool PackedWeights::hold(const Program& program, const Tensor* tensors) const {
  if (copy.empty()) return false;
  const char* known = copy.data();
  return for_rows(program, tensors, [&](const char* row, size_t bytes) {
    bool same = std::memcmp(row, known, bytes) == 0;
    known += bytes;
    return same;
  });
}

void PackedWeights::remember(const Program& program, const Tensor* tensors) {
  copy.clear();
  for_rows(program, tensors, [&](const char* row, size_t bytes) {
    copy.insert(copy.end(), row, row + bytes);
    return true;
  });
}

}  // namespace fastcell
