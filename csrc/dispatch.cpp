#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>

namespace fastcell {

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets{{"portable", &portable::machine}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    sets.push_back({"avx2", &avx2::machine});
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
    sets.push_back({"avx512", &avx512::machine});
  }
#endif
  return sets;
}

InstructionSet instruction_set() {
  std::vector<InstructionSet> sets = instruction_sets();
  const char* wanted = std::getenv("FASTCELL_ISA");
  if (!wanted || !*wanted) return sets.back();
  std::string names;
  for (const InstructionSet& set : sets) {
    if (std::string(wanted) == set.name) return set;
    names += std::string(names.empty() ? "" : ", ") + set.name;
  }
  throw std::invalid_argument(std::string("FASTCELL_ISA: found ") + wanted +
                              ", this machine supports " + names);
}

double fma_peak(int threads, double seconds, Dtype dtype) {
  auto rate = instruction_set().machine->fma_rate[int(dtype)];
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  sum += rate(seconds);
  return sum;
}

}  // namespace fastcell
