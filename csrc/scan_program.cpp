#include "scan_program.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "packed.h"

namespace fastcell {
namespace {

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory allocate(int64_t bytes) {
  constexpr int64_t ALIGNMENT = 64;
  int64_t rounded = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
  char* memory = static_cast<char*>(std::aligned_alloc(ALIGNMENT, size_t(rounded)));
  if (!memory) throw std::bad_alloc();
  return Memory(memory);
}

// OpenMP's threads don't survive a fork, and it would wait for them for ever. A new thread starts
// with new ones.
void run_forked(const Machine& machine, Dtype dtype, const Job& job) {
  std::thread([&] { machine.run[int(dtype)](job); }).join();
}

const pid_t loaded_in = getpid();

// The rows before each step.
std::vector<int64_t> starts_of(const std::vector<int64_t>& rows) {
  std::vector<int64_t> starts;
  int64_t sum = 0;
  for (int64_t each : rows) {
    starts.push_back(sum);
    sum += each;
  }
  return starts;
}

}  // namespace

// Memory for a run. The shared part is zeroed once: what PACK doesn't fill stays zero.
struct ScanProgram::Workspace {
  Plan plan;
  Memory shared, scratch;
  int64_t scratch_capacity = 0;
  PackedWeights packed;

  explicit Workspace(const Plan& first) : plan(first), shared(allocate(first.shared_bytes)) {
    std::memset(shared.get(), 0, size_t(first.shared_bytes));
    fit(first);
  }

  // Whether the weights are packed as they are now; only short runs ask, where packing counts.
  bool has_packed(const Program& program, const Tensor* tensors) {
    constexpr int64_t SHORT = 8;  // rows of all steps
    if (plan.T * plan.B > SHORT) {
      packed.forget();
      return false;
    }
    if (packed.hold(program, tensors)) return true;
    packed.remember(program, tensors);
    return false;
  }

  void fit(const Plan& next) {
    int64_t bytes = next.shares * next.scratch_bytes;
    if (!scratch || bytes > scratch_capacity) {
      scratch.reset();
      scratch = allocate(bytes);
      scratch_capacity = bytes;
    }
    plan = next;
  }
};

ScanProgram::ScanProgram(Program program) : program(std::move(program)), set(instruction_set()) {}

ScanProgram::~ScanProgram() { delete spare.load(); }

void ScanProgram::run(const std::vector<Tensor>& tensors, const Time& time, int threads,
                      double* seconds) const {
  check(tensors, time, threads);
  const auto [T, B] = std::pair(time.T, time.B);
  std::unique_ptr<Workspace> workspace(spare.exchange(nullptr));
  if (!workspace) {
    workspace = std::make_unique<Workspace>(make_plan(program, T, B, threads));
  } else if (!workspace->plan.serves(T, B, threads)) {
    workspace->fit(make_plan(program, T, B, threads));
  }
  Job job = make_job(*workspace, tensors);
  std::vector<int64_t> starts = starts_of(time.rows);
  job.mirrored = time.mirrored;
  job.reverse = program.reverse != time.mirrored;
  job.rows = time.rows.empty() ? nullptr : time.rows.data();
  job.starts = starts.data();
  job.packed = workspace->has_packed(program, tensors.data());
  std::vector<double> spent(seconds ? job.shares * OPCODES : 0);
  job.seconds = seconds ? spent.data() : nullptr;
  if (job.shares > 1 && getpid() != loaded_in) {
    run_forked(*set.machine, program.dtype, job);
  } else {
    set.machine->run[int(program.dtype)](job);
  }
  for (size_t i = 0; i < spent.size(); ++i) seconds[i % OPCODES] += spent[i];
  // A large one isn't kept: there may be many programs, and a large run hardly notices.
  constexpr int64_t MOST_KEPT = 4 << 20;
  if (workspace->plan.bytes() <= MOST_KEPT) delete spare.exchange(workspace.release());
}

void ScanProgram::check(const std::vector<Tensor>& tensors, const Time& time, int threads) const {
  auto expect = [](bool good, const std::string& what, int64_t found, const std::string& expected) {
    if (good) return;
    throw std::invalid_argument(what + ": found " + std::to_string(found) + ", expected " +
                                expected);
  };
  expect(time.T >= 0, "T", time.T, "0 or more");
  expect(time.B >= 0, "B", time.B, "0 or more");
  int64_t steps = int64_t(time.rows.size()), above = time.B;
  expect(steps == 0 || steps == time.T, "rows", steps, "one number for each step");
  expect(steps == 0 || time.rows[0] == above, "rows[0]", steps ? time.rows[0] : 0, "B");
  for (int64_t rows : time.rows) {
    expect(0 < rows && rows <= above, "rows", rows, "1 or more, falling");
    above = rows;
  }
  expect(threads >= 1, "threads", threads, "1 or more");
  expect(int64_t(tensors.size()) == program.tensors, "tensors", int64_t(tensors.size()),
         std::to_string(program.tensors));
  for (size_t i = 0; i < tensors.size(); ++i) {
    expect(tensors[i].data || !program.tensor_required[i], "tensor " + std::to_string(i), 0,
           "an address: it is a parameter");
  }
}

Job ScanProgram::make_job(const Workspace& workspace, const std::vector<Tensor>& tensors) const {
  const Plan& plan = workspace.plan;
  Job job{};
  job.buffers = program.buffers.data();
  job.buffer_count = int32_t(program.buffers.size());
  job.offsets = plan.offsets.data();
  for (int i = 0; i <= SECTIONS; ++i) job.code[i] = program.code.data() + program.sections[i];
  job.tensors = tensors.data();
  job.T = plan.T, job.B = plan.B;
  job.R = plan.R, job.C = plan.C;
  job.shares = plan.shares;
  job.shared = workspace.shared.get();
  job.scratch = workspace.scratch.get();
  job.scratch_bytes = plan.scratch_bytes;
  job.grad_bytes = plan.grad_bytes;
  return job;
}

int64_t ScanProgram::workspace_bytes(int64_t T, int64_t B, int threads) const {
  return make_plan(program, T, B, threads).bytes();
}

}  // namespace fastcell
