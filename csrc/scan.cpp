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

  // This share's rows are every so-manieth of the batch: where later rows end earlier, all shares
  // have the same to do.
  void run_batch() {
    __builtin_memset(scratch, 0, job.grad_bytes);
    int64_t rows = share_of(job.B), tiles = (rows + job.R - 1) / job.R;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      first_row = rows * tile / tiles;
      tile_rows = rows * (tile + 1) / tiles - first_row;
      run_tile();
    }
  }

  // Gradients, once every share is done with its batch.
  void finish() { execute(Section::FINISH); }

 private:
  void run_tile() {
    for_carries([&](int32_t i, const Buffer& buffer) {
      read_rows(tile_rows, buffer.width, state({buffer.tensor_a, 0}), view({i, 0}));
    });
    for (int64_t done = 0; done < job.T;) done += run_chunk(done);
    for_carries([&](int32_t i, const Buffer& buffer) {
      write_rows(tile_rows, buffer.width, view({i, 0}), state({buffer.tensor_b, 0}));
    });
  }

  // As many steps as a chunk has room for, once `done` steps are; returns how many.
  int64_t run_chunk(int64_t done) {
    int64_t length = 0, sum = 0;
    for (; done + length < job.T; ++length) {
      int64_t live = live_rows(walked(done + length));
      if (length > 0 && sum + live > job.C * job.R) break;
      sum += live;
    }
    int64_t start = job.reverse ? job.T - done - length : done;
    run_steps(Section::PRE, start, length, 0, sum);
    for (int64_t i = 0, row = job.reverse ? sum : 0; i < length; ++i) {
      int64_t t = walked(done + i), live = live_rows(t);
      run_steps(Section::LOOP, t, 1, job.reverse ? row - live : row, live);
      row += job.reverse ? -live : live;
    }
    run_steps(Section::POST, start, length, 0, sum);
    return length;
  }

  void run_steps(Section section, int64_t start, int64_t count, int64_t row, int64_t row_count) {
    time = start, steps = count, chunk_row = row, rows = row_count;
    if (rows > 0) execute(section);
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

  // Where the step before is not there, at either end or in a row that begins here, the state is.
  void load_steps(const Instruction& code) {
    View<T> to = view(code.dst);
    for (int64_t i = time; i < time + steps; ++i) {
      int64_t t = job.mirrored ? i - code.extra0 : i + code.extra0, live = live_rows(i);
      int64_t there = t < 0 || t >= job.T ? 0 : live < live_rows(t) ? live : live_rows(t);
      if (there > 0) read_rows(there, code.width, sequence(code.a, t), to);
      read_rows(live - there, code.width, state(code.b, there), to.from(there, 0));
      to = to.from(live, 0);
    }
  }

  void store_steps(const Instruction& code) {
    View<T> from = view(code.a);
    for (int64_t i = time; i < time + steps; ++i) {
      write_rows(live_rows(i), code.width, from, sequence(code.dst, i));
      from = from.from(live_rows(i), 0);
    }
  }

  void multiply(const Instruction& code) {
    const Buffer& weight = job.buffers[code.b.buffer];
    const T* bias = code.extra0 == BIAS ? view(code.c).data : nullptr;
    product(rows, weight.rows, weight.width, view(code.a), base(code.b.buffer), view(code.dst),
            code.extra0, bias);
  }

  void pack_block(const Instruction& code) {
    const Buffer& weight = job.buffers[code.dst.buffer];
    Block block{code.c.buffer, code.c.column, code.extra0, code.width};
    View<T> from = parameter({code.a.buffer, code.b.column}, code.b.buffer);
    pack(block, code.extra1, from, weight.rows, weight.width, base(code.dst.buffer), share,
         job.shares);
  }

  void unpack_block(const Instruction& code) {
    View<T> from = grad(code.a.buffer).from(code.c.buffer, code.c.column);
    View<T> to = parameter({code.dst.buffer, code.b.column}, code.b.buffer);
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
    View<T> from = parameter({buffer.tensor_a, 0}, 0);
    read_rows(1, buffer.rows, from, view({i, 0}));
    for (int32_t j = buffer.rows; j < buffer.width; ++j) base(i)[j] = from(0, 0);
  }

  // Of the first `rows` rows of the batch, how many are this share's: rows share, share + shares...
  int64_t share_of(int64_t rows) const { return (rows - share + job.shares - 1) / job.shares; }

  // The rows of this tile that step t has; those that it lacks are the last ones.
  int64_t live_rows(int64_t t) const {
    if (!job.rows) return tile_rows;
    int64_t live = share_of(job.rows[t]) - first_row;
    return live < 0 ? 0 : live < tile_rows ? live : tile_rows;
  }

  // The step that the walk reaches after `done` others.
  int64_t walked(int64_t done) const { return job.reverse ? job.T - 1 - done : done; }

  // The caller's memory from `element` on; no data if absent.
  View<T> memory(Operand operand, int64_t element, int64_t stride) const {
    if (operand.buffer < 0 || !job.tensors[operand.buffer].data) return {nullptr, 0};
    return {(T*)job.tensors[operand.buffer].data + element + operand.column, stride};
  }

  View<T> parameter(Operand operand, int64_t row) const {
    if (operand.buffer < 0) return {nullptr, 0};
    int64_t stride = job.tensors[operand.buffer].stride_b;
    return memory(operand, row * stride, stride);
  }

  // The rows of this tile from its `row` on, of a state
  View<T> state(Operand operand, int64_t row = 0) const {
    if (operand.buffer < 0) return {nullptr, 0};
    int64_t stride = job.tensors[operand.buffer].stride_b, first = first_row + row;
    return memory(operand, (share + first * job.shares) * stride, job.shares * stride);
  }

  // and of a sequence at time t.
  View<T> sequence(Operand operand, int64_t t) const {
    const Tensor& tensor = job.tensors[operand.buffer];
    View<T> first = state(operand);
    if (first.data) first.data += job.rows ? job.starts[t] * tensor.stride_b : t * tensor.stride_t;
    return first;
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
    int64_t row = buffer.kind == Kind::CHUNK ? chunk_row : 0;
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
  // Where the run is: the tile's first row among the share's and its rows; the first of the `steps`
  // steps that an instruction is for, the first of their rows in the chunk, and how many.
  int64_t first_row = 0, tile_rows = 0, time = 0, steps = 0, chunk_row = 0, rows = 0;
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
