// One run of a Program on one instruction set: what it is given, and who can do it.
#pragma once

#include "program.h"

namespace fastcell {

// The caller's memory; strides in elements.
struct Tensor {
  void* data;
  int64_t stride_t, stride_b;
};

// A whole run, planned. Plain data: what is compiled for one instruction set must not share inline
// functions (std::vector's, say) with the rest, lest the linker keep only the wrong copy.
struct Job {
  const Buffer* buffers;
  int32_t buffer_count;
  const int64_t* offsets;                 // of each buffer, in bytes, within `shared` for WEIGHT
                                          // and ROW, within a share's `scratch` for the others
  const Instruction* code[SECTIONS + 1];  // section s is [code[s], code[s + 1])
  bool reverse;                           // time is walked from its end, `mirrored` considered
  bool packed;                            // the weights are in `shared` already
  const Tensor* tensors;
  int64_t T, B;
  bool mirrored;          // the recurrence runs from the last step to the first
  const int64_t* rows;    // of each step, or null: B at each
  const int64_t* starts;  // with `rows`: the rows before each step
  int64_t R, C;           // rows to a tile, steps to a chunk
  int shares;             // equal parts of the batch, one to a thread
  char* shared;
  char* scratch;          // of share 0; of share i at i * scratch_bytes
  int64_t scratch_bytes;  // for each share, and
  int64_t grad_bytes;     // how much of it, at its start, is GRAD
  double* seconds;        // OPCODES for each share, to be added to; or null: don't measure
};

// The tile machine as compiled for one instruction set; functions by Dtype.
struct Machine {
  void (*run[2])(const Job&);
  double (*fma_rate[2])(double seconds);  // peak.h
};

// One for each instruction set there is a build for.
namespace portable {
extern const Machine machine;
}
namespace avx2 {
extern const Machine machine;
}
namespace avx512 {
extern const Machine machine;
}

}  // namespace fastcell
