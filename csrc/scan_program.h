// A Program, ready to run on this machine.
#pragma once

#include <atomic>
#include <memory>

#include "decode.h"
#include "dispatch.h"
#include "plan.h"

namespace fastcell {

// The steps of a run.
struct Time {
  int64_t T, B;
  bool mirrored = false;      // the recurrence runs from the last step to the first
  std::vector<int64_t> rows;  // of each step, falling, the first with B; or empty: B at each
};

class ScanProgram {
 public:
  // Takes the instruction set of the moment (dispatch.h).
  explicit ScanProgram(Program program);
  ~ScanProgram();

  // Runs over all steps; tensors as the program numbers them. Any number of threads may run the
  // same ScanProgram at once. Equal arguments give results equal bit by bit.
  // seconds: null, or OPCODES numbers to which the time spent in each is added, over all threads.
  // Throws std::invalid_argument if an argument doesn't fit.
  void run(const std::vector<Tensor>& tensors, const Time& time, int threads,
           double* seconds = nullptr) const;

  int64_t workspace_bytes(int64_t T, int64_t B, int threads) const;
  const char* isa() const { return set.name; }

 private:
  struct Workspace;
  void check(const std::vector<Tensor>& tensors, const Time& time, int threads) const;
  Job make_job(const Workspace& workspace, const std::vector<Tensor>& tensors) const;

  const Program program;
  const InstructionSet set;
  // The workspace of the last run, for the next one. A run takes it away while it lasts; one that
  // finds it gone makes its own.
  mutable std::atomic<Workspace*> spare{nullptr};
};

}  // namespace fastcell
