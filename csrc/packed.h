// Whether a run's weights are those of the run before: then they are packed already.
#pragma once

#include <vector>

#include "decode.h"
#include "scan.h"

namespace fastcell {

// A copy of what PACK last read. For short runs, such as one step of a stream, comparing it with
// what PACK would read now is much cheaper than packing; it is exact, whoever changed the weights.
class PackedWeights {
 public:
  // Whether every block that the program packs holds what `remember` last saw there.
  bool hold(const Program& program, const Tensor* tensors) const;
  void remember(const Program& program, const Tensor* tensors);
  void forget() { copy.clear(); }

 private:
  std::vector<char> copy;  // the rows of every block, one after the other
};

}  // namespace fastcell
