// A Program as given (two int32 arrays), checked, in the form the machine runs.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace fastcell {

// A Program that is known to be well formed: whatever T, B and tensors it runs on, it stays within
// its buffers.
struct Program {
  Dtype dtype;
  int32_t tensors;
  bool reverse;
  std::vector<Buffer> buffers;
  std::vector<Instruction> code;      // by section, in the order given
  int32_t sections[SECTIONS + 1];     // section s is code[sections[s]] .. code[sections[s + 1]]
  std::vector<char> tensor_required;  // for each tensor: read by ROW or PACK, so may not be absent

  int64_t element_bytes() const { return dtype == Dtype::FLOAT32 ? 4 : 8; }
};

// Throws std::invalid_argument, with the place, what was found and what was expected.
Program decode(Dtype dtype, int32_t tensors, bool reverse, std::vector<Buffer> buffers,
               std::vector<Instruction> code);

// What the opcodes are called: "load" ... "unpack", and for an elementwise operation its name in
// ops.def, or that with "_grad" for its gradient.
const char* opcode_name(int32_t opcode);

}  // namespace fastcell
