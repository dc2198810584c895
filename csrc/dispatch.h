// Which build of the tile machine runs here.
#pragma once

#include <string>
#include <vector>

#include "scan.h"

namespace fastcell {

struct InstructionSet {
  const char* name;
  const Machine* machine;
};

// Those that this processor has and this build contains, the best last.
std::vector<InstructionSet> instruction_sets();

// The best one, or the one that the environment variable FASTCELL_ISA names. Throws
// std::invalid_argument if that one is not there.
InstructionSet instruction_set();

// Floating-point operations per second of `threads` threads that do nothing but multiply-adds:
// what the speed of everything else is measured by.
double fma_peak(int threads, double seconds, Dtype dtype);

}  // namespace fastcell
