#include "plan.h"

#include <algorithm>

namespace fastcell {
namespace {

// Measured: a tile of so many rows keeps the products busy while its buffers stay near.
constexpr int64_t TILE_ROWS = 32;
// Rows that a product over a chunk should have; with weight gradients more, since each adds a
// whole matrix to memory.
constexpr int64_t CHUNK_ROWS = 64, CHUNK_ROWS_FOR_GRADIENTS = 256;
// What the CHUNK buffers of a thread may take of its L2 cache.
constexpr int64_t CHUNK_BYTES = 256 << 10;
constexpr int64_t ALIGNMENT = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t aligned(int64_t bytes) { return ceil_div(bytes, ALIGNMENT) * ALIGNMENT; }

int64_t chunk_steps(const Program& program, int64_t T, int64_t R) {
  int64_t row_bytes = 1;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind == Kind::CHUNK) row_bytes += row_stride(buffer.width) * program.element_bytes();
  }
  bool gradients = std::any_of(program.code.begin(), program.code.end(),
                               [](const Instruction& code) { return code.opcode == OUTER; });
  int64_t rows =
      std::min(gradients ? CHUNK_ROWS_FOR_GRADIENTS : CHUNK_ROWS, CHUNK_BYTES / row_bytes);
  return std::clamp<int64_t>(rows / R, 1, std::max<int64_t>(T, 1));
}

int64_t rows_of(const Buffer& buffer, int64_t R, int64_t C) {
  switch (buffer.kind) {
    case Kind::TILE:
    case Kind::CARRY:
      return R;
    case Kind::CHUNK:
      return C * R;
    case Kind::ROW:
      return 1;
    default:
      return buffer.rows;
  }
}

// Places the buffers of some kinds one after the other; returns where they end.
template <class Which>
int64_t place(const Program& program, Plan& plan, int64_t offset, Which which) {
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (!which(buffer.kind)) continue;
    plan.offsets[i] = offset;
    int64_t elements = rows_of(buffer, plan.R, plan.C) * row_stride(buffer.width);
    offset += aligned(elements * program.element_bytes());
  }
  return offset;
}

}  // namespace

Plan make_plan(const Program& program, int64_t T, int64_t B, int threads) {
  Plan plan{};
  plan.T = T, plan.B = B, plan.threads = threads;
  plan.shares = int(std::clamp<int64_t>(threads, 1, std::max<int64_t>(B, 1)));
  plan.offsets.resize(program.buffers.size());
  int64_t rows = std::max<int64_t>(ceil_div(B, plan.shares), 1);
  plan.R = ceil_div(rows, ceil_div(rows, TILE_ROWS));
  plan.C = chunk_steps(program, T, plan.R);
  auto shared = [](Kind kind) { return kind == Kind::WEIGHT || kind == Kind::ROW; };
  auto grad = [](Kind kind) { return kind == Kind::GRAD; };
  auto other = [&](Kind kind) { return !shared(kind) && !grad(kind); };
  plan.shared_bytes = place(program, plan, 0, shared);
  plan.grad_bytes = place(program, plan, 0, grad);
  plan.scratch_bytes = place(program, plan, plan.grad_bytes, other);
  return plan;
}

}  // namespace fastcell
