// The tile machine: the interpreter of Programs (program.h), compiled once per instruction set.

#include "scan.h"

#include <omp.h>

#include "denormals.h"
#include "elementwise.h"
#include "gemm.h"
#include "peak.h"
#include "reduce.h"
#include "weights.h"

namespace fastcell::FASTCELL_ISA {

// One share of a run, on its own scratch memory.
template <class T>
class Share {
 public:
  Share(const Job& job, int share)
      : job(job), share(share), scratch(job.scratch + share * job.scratch_bytes) {}

  // Packed weights and parameter rows, this share's part of them.
  void setup() {
    if (!job.packed) execute(Section::SETUP);
    if (share != 0) return;
    for (int32_t i = 0; i < job.buffer_count; ++i) {
      const Buffer& buffer = job.buffers[i];
      if (buffer.kind == Kind::ROW && buffer.tensor_a >= 0) read_parameter_row(i);
    }
  }

  void run_batch() {
    __builtin_memset(scratch, 0, job.grad_bytes);
    int64_t begin = job.B * share / job.shares, rows = job.B * (share + 1) / job.shares - begin;
    int64_t tiles = (rows + job.R - 1) / job.R;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      first_row = begin + rows * tile / tiles;
      tile_rows = begin + rows * (tile + 1) / tiles - first_row;
      run_tile();
    }
  }

  // Gradients, once every share is done with its batch.
  void finish() { execute(Section::FINISH); }

 private:
  void run_tile() {
    for_carries([&](int32_t i, const Buffer& buffer) {
      read_rows(tile_rows, buffer.width, tensor({buffer.tensor_a, 0}, 0, first_row), view({i, 0}));
    });
    int64_t chunks = (job.T + job.C - 1) / job.C;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      run_chunk((job.reverse ? chunks - 1 - chunk : chunk) * job.C);
    }
    for_carries([&](int32_t i, const Buffer& buffer) {
      write_rows(tile_rows, buffer.width, view({i, 0}), tensor({buffer.tensor_b, 0}, 0, first_row));
    });
  }

  void run_chunk(int64_t start) {
    int64_t length = job.T - start < job.C ? job.T - start : job.C;
    chunk_start = time = start, steps = length;
    execute(Section::PRE);
    steps = 1;
    for (int64_t i = 0; i < length; ++i) {
      time = start + (job.reverse ? length - 1 - i : i);
      execute(Section::LOOP);
    }
    time = start, steps = length;
    execute(Section::POST);
  }

  void execute(Section section) {
    const Instruction* end = job.code[int(section) + 1];
    for (const Instruction* code = job.code[int(section)]; code < end; ++code) {
      double start = job.seconds ? omp_get_wtime() : 0;
      execute(*code);
      if (job.seconds) job.seconds[share * OPCODES + code->opcode] += omp_get_wtime() - start;
    }
  }

  void execute(const Instruction& code) {
    int64_t rows = steps * tile_rows;
    switch (code.opcode) {
      case LOAD:
        return load_steps(code);
      case STORE:
        return store_steps(code);
      case GEMM:
        return multiply(code);
      case MEAN:
        return mean(rows, code.width, view(code.a), view(code.dst));
      case OUTER:
        return outer(rows, code.extra0, code.width, view(code.a), view(code.b),
                     grad(code.dst.buffer).from(code.dst.column, 0));
      case SUMROWS:
        return sum_rows(rows, code.width, view(code.a), &grad(code.dst.buffer)(0, code.dst.column));
      case PACK:
        return pack_block(code);
      case UNPACK:
        return unpack_block(code);
      default:
        return passes<T>[code.opcode - COPY](rows, padded(code.width), view(code.dst), view(code.a),
                                             view(code.b), view(code.c));
    }
  }

  void load_steps(const Instruction& code) {
    View<T> to = view(code.dst);
    for (int64_t i = 0; i < steps; ++i) {
      int64_t t = time + i + code.extra0;
      View<T> from = t < 0 ? tensor(code.b, 0, first_row) : tensor(code.a, t, first_row);
      read_rows(tile_rows, code.width, from, to.from(i * tile_rows, 0));
    }
  }

  void store_steps(const Instruction& code) {
    View<T> from = view(code.a);
    for (int64_t i = 0; i < steps; ++i) {
      write_rows(tile_rows, code.width, from.from(i * tile_rows, 0),
                 tensor(code.dst, time + i, first_row));
    }
  }

  void multiply(const Instruction& code) {
    const Buffer& weight = job.buffers[code.b.buffer];
    const T* bias = code.extra0 == BIAS ? view(code.c).data : nullptr;
    product(steps * tile_rows, weight.rows, weight.width, view(code.a), base(code.b.buffer),
            view(code.dst), code.extra0, bias);
  }

  void pack_block(const Instruction& code) {
    const Buffer& weight = job.buffers[code.dst.buffer];
    Block block{code.c.buffer, code.c.column, code.extra0, code.width};
    View<T> from = tensor({code.a.buffer, code.b.column}, 0, code.b.buffer);
    pack(block, code.extra1, from, weight.rows, weight.width, base(code.dst.buffer), share,
         job.shares);
  }

  void unpack_block(const Instruction& code) {
    View<T> from = grad(code.a.buffer).from(code.c.buffer, code.c.column);
    View<T> to = tensor({code.dst.buffer, code.b.column}, 0, code.b.buffer);
    if (!to.data) return;
    from.data -= share * copy_distance();
    unpack(code.extra0, code.width, from, job.shares, copy_distance(), to, share, job.shares);
  }

  template <class Use>
  void for_carries(Use use) {
    for (int32_t i = 0; i < job.buffer_count; ++i) {
      if (job.buffers[i].kind == Kind::CARRY) use(i, job.buffers[i]);
    }
  }

  // A ROW buffer <- its parameter, whose only element is repeated if it has but one.
  void read_parameter_row(int32_t i) {
    const Buffer& buffer = job.buffers[i];
    View<T> from = tensor({buffer.tensor_a, 0}, 0, 0);
    read_rows(1, buffer.rows, from, view({i, 0}));
    for (int32_t j = buffer.rows; j < buffer.width; ++j) base(i)[j] = from(0, 0);
  }

  // The caller's memory from (time t, row, operand.column) on; no data if absent.
  View<T> tensor(Operand operand, int64_t t, int64_t row) const {
    if (operand.buffer < 0) return {nullptr, 0};
    const Tensor& tensor = job.tensors[operand.buffer];
    if (!tensor.data) return {nullptr, 0};
    return {(T*)tensor.data + t * tensor.stride_t + row * tensor.stride_b + operand.column,
            tensor.stride_b};
  }

  T* base(int32_t buffer) const {
    Kind kind = job.buffers[buffer].kind;
    bool shared = kind == Kind::WEIGHT || kind == Kind::ROW;
    return (T*)((shared ? job.shared : scratch) + job.offsets[buffer]);
  }

  // The rows of the current steps, from operand.column on.
  View<T> view(Operand operand) const {
    const Buffer& buffer = job.buffers[operand.buffer];
    int64_t stride = buffer.kind == Kind::ROW ? 0 : row_stride(buffer.width);
    int64_t row = buffer.kind == Kind::CHUNK ? (time - chunk_start) * tile_rows : 0;
    return View<T>{base(operand.buffer), stride}.from(row, operand.column);
  }

  View<T> grad(int32_t buffer) const {
    return {base(buffer), row_stride(job.buffers[buffer].width)};
  }

  // From a GRAD buffer to that of the next share, in elements.
  int64_t copy_distance() const { return job.scratch_bytes / int64_t(sizeof(T)); }

  const Job& job;
  const int share;
  char* const scratch;
  // Where the run is: the tile's first row of the batch and its rows, the chunk's first step, and
  // the first of the `steps` steps that an instruction is for.
  int64_t first_row = 0, tile_rows = 0, chunk_start = 0, time = 0, steps = 0;
};

template <class T>
void run_alone(const Job& job) {
  FlushDenormals flush;
  Share<T> share(job, 0);
  share.setup();
  share.run_batch();
  share.finish();
}

// The shares are fixed by the job; threads take what there is, should OpenMP give fewer.
template <class T>
void run(const Job& job) {
  if (job.shares == 1) return run_alone<T>(job);
#pragma omp parallel num_threads(job.shares)
  {
    FlushDenormals flush;
    int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    for (int i = thread; i < job.shares; i += threads) Share<T>(job, i).setup();
#pragma omp barrier
    for (int i = thread; i < job.shares; i += threads) Share<T>(job, i).run_batch();
#pragma omp barrier
    for (int i = thread; i < job.shares; i += threads) Share<T>(job, i).finish();
  }
}

extern const Machine machine;
const Machine machine = {{run<float>, run<double>}, {fma_rate<float>, fma_rate<double>}};

}  // namespace fastcell::FASTCELL_ISA
