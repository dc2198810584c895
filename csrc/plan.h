// How a run is laid out: the rows of a tile, the steps of a chunk, and where each buffer lies.
#pragma once

#include <vector>

#include "decode.h"

namespace fastcell {

struct Plan {
  int64_t T, B;
  int threads;  // as asked for; `shares` of them have work
  int shares;
  int64_t R, C;                  // rows to a tile, steps to a chunk
  std::vector<int64_t> offsets;  // of each buffer, in bytes, as Job says
  int64_t shared_bytes;          // WEIGHT and ROW buffers, for all threads; the same for every plan
  int64_t scratch_bytes;         // all others, for each thread
  int64_t grad_bytes;            // of these, GRAD buffers, which come first

  bool serves(int64_t T, int64_t B, int threads) const {
    return this->T == T && this->B == B && this->threads == threads;
  }
  int64_t bytes() const { return shared_bytes + shares * scratch_bytes; }
};

// Depends on nothing but its arguments, and so do the results of the run.
Plan make_plan(const Program& program, int64_t T, int64_t B, int threads);

}  // namespace fastcell
