// What the tile machine runs: the encoding of a Program, and the one specification of it.
//
// A Program is a recurrent cell lowered for a fixed input size, hidden size and dtype. It is built
// once from two int32 arrays (buffers and code, one row each, laid out as the structs below) and
// run many times on sequences of any length T and batch B. A run may be mirrored: then time is
// counted from its end in all that follows.
//
// How it runs. The batch is cut into tiles of R rows, time into chunks of C steps (R and C are the
// machine's choice). Each tile walks through its chunks, forwards or (`reverse`) backwards:
//
//     SETUP                      once a run: PACK
//     for tile of the batch:     CARRY buffers are read
//         for chunk of the time:
//             PRE                on all C*R rows of the chunk at once
//             for step:  LOOP    on R rows
//             POST               on all C*R rows of the chunk at once
//                                CARRY buffers are written
//     FINISH                     once a run, GRAD buffers summed over the threads: UNPACK
//
// Rows may end before the last step, the later ones of the batch first: a step then has only the
// first so many, and what sums over rows sums over those that there are.
//
// Tensors are the caller's memory, known by number; each run passes, for each, its address and two
// strides in elements; the last dimension is contiguous.
//     sequence   (T, B, width)   element (t, b, j) at t * stride_t + b * stride_b + j
//                (N, width)      where steps have fewer and fewer rows: the rows of step after step
//     state      (B, width)      element (b, j) at b * stride_b + j
//     parameter  (rows, columns) element (i, j) at i * stride_b + j
// Address 0 means absent: a sequence or state is read as zeros, and nothing is written to it. Only
// parameters that are read (ROW, PACK) must be there.
//
// Buffers are the machine's own memory. Rows are padded to a multiple of LANES elements, and so
// are the widths that elementwise instructions work on: what the pads hold is never looked at by
// an instruction that would mix columns.
#pragma once

#include <cstdint>

namespace fastcell {

constexpr int64_t LANES = 16;

constexpr int64_t padded(int64_t width) { return (width + LANES - 1) / LANES * LANES; }

// Elements from a row of a buffer to the next. Going down a column, rows a power of two apart would
// meet in a few sets of the cache and drive each other out.
constexpr int64_t row_stride(int64_t width) {
  return padded(width) % (4 * LANES) == 0 ? padded(width) + LANES : padded(width);
}

enum class Dtype : int32_t { FLOAT32, FLOAT64 };

enum class Kind : int32_t {
  TILE,    // R x width: lives within a step; LOOP only
  CHUNK,   // C*R x width: lives within a chunk; LOOP sees the R rows of its step
  CARRY,   // R x width: from step to step; LOOP only. tensor_a: the state it starts from (or -1,
           // zeros), tensor_b: the state it ends in (or -1, dropped)
  ROW,     // 1 x width: the parameter row tensor_a, repeated for every row of an operation.
           // rows: the columns of that parameter, `width`, or 1 to repeat its only element.
           // With tensor_a -1 (and rows 1) PACK fills it instead; zero where nothing is packed
  WEIGHT,  // rows x width: filled by PACK, read by GEMM; zero where nothing is packed
  GRAD,    // rows x width: a sum over all rows of the run, zero at first
};

// One row of the buffer array.
struct Buffer {
  Kind kind;
  int32_t rows;  // of ROW, WEIGHT and GRAD; 0 for the others
  int32_t width;
  int32_t tensor_a, tensor_b;  // of CARRY, and tensor_a of ROW; else -1
};

enum class Section : int32_t { SETUP, PRE, LOOP, POST, FINISH };
constexpr int SECTIONS = 5;

// In what follows x[j] is the operand x: columns x.column onwards of buffer x.buffer, `rows` the
// number of rows at hand (R in LOOP, C*R in PRE and POST), and fields not named are ignored.
enum Opcode : int32_t {
  // dst <- columns a.column.. of sequence tensor `a` at time t + extra0 (0 or -1); before time 0,
  // from columns b.column.. of state tensor `b` (or -1: zeros). Pads become 0.
  LOAD,
  // columns dst.column.. of sequence tensor `dst` at time t <- a
  STORE,
  // dst[rows x N] <- a[rows x K] W, with W the whole WEIGHT buffer b (K x N) and width == N, plus
  // nothing (extra0 == SET), dst (ADD), or the ROW operand c (BIAS). dst may not overlap a.
  GEMM,
  // every column of dst <- the mean of the first `width` columns of a, row by row
  MEAN,
  // rows dst.column.. of GRAD dst += a^T b, with a (rows x extra0) and b (rows x width)
  OUTER,
  // row 0 of GRAD dst += the sum of the rows of a
  SUMROWS,
  // A block of extra0 rows x width columns goes between (c.buffer, c.column), its first row and
  // column in a buffer, and (b.buffer, b.column), its first row and column in a tensor.
  // WEIGHT or ROW dst <- parameter `a`; extra1 == 1: transposed, the tensor's block is width x
  // extra0
  PACK,
  // parameter `dst` <- GRAD a
  UNPACK,
  COPY,  // dst <- a
  ZERO,  // dst <- 0
// Elementwise, on padded(width) columns; dst may be an operand. ROW operands repeat.
//   unary     dst <- f(a)
//   gradient  dst <- f'(b) * a, with b the input or the output of f as FASTCELL_UNARY's third
//             argument says (ignored where it says none)
//   binary    dst <- f(a, b)
//   ternary   dst <- f(a, b, c)
#define FASTCELL_UNARY(name, value, reads, derivative) OP_##name, OP_##name##_grad,
#define FASTCELL_BINARY(name, value) OP_##name,
#define FASTCELL_TERNARY(name, value) OP_##name,
#include "ops.def"
  OPCODES
};

enum GemmMode : int32_t { SET, ADD, BIAS };

// A buffer and its first column, a multiple of LANES (of a tensor: any column).
struct Operand {
  int32_t buffer, column;
};

// One row of the code array.
struct Instruction {
  Section section;
  int32_t opcode;
  Operand dst, a, b, c;
  int32_t width, extra0, extra1;
};

constexpr int BUFFER_FIELDS = sizeof(Buffer) / sizeof(int32_t);
constexpr int CODE_FIELDS = sizeof(Instruction) / sizeof(int32_t);

}  // namespace fastcell
