// Parameters on their way in (PACK) and their gradients on their way out (UNPACK). Both are shared
// by the threads: `share` of `shares` does its part.
#pragma once

#include "gemm.h"

namespace fastcell::FASTCELL_ISA {

// Rows k.. and columns n.. of a weight.
struct Block {
  int64_t k, n, rows, columns;
};

// The block of w (K x N, packed as gemm.h says) <- from (rows x columns), or its transpose when
// `from` is (columns x rows), as torch keeps weights. Panels are dealt out in turn.
template <class T>
void pack(Block block, bool transposed, View<T> from, int64_t K, int64_t N, T* w, int share,
          int shares) {
  int64_t across = transposed ? from.stride : 1, down = transposed ? 1 : from.stride;
  for_panels<T>(padded(N), [&](int64_t first, auto vectors) {
    constexpr int64_t width = vectors.value * lanes<T>;
    if (first / panel_width<T> % shares != share) return;
    T* panel = w + first * K;
    int64_t begin = block.n > first ? block.n : first;
    int64_t block_end = block.n + block.columns, panel_end = first + width;
    int64_t end = block_end < panel_end ? block_end : panel_end;
    for (int64_t k = 0; k < block.rows; ++k) {
      T* to = panel + (block.k + k) * width - first;
      const T* source = from.data + k * down - block.n * across;
      for (int64_t n = begin; n < end; ++n) to[n] = source[n * across];
    }
  });
}

// to (rows x columns) <- the sum of `copies` matrices, the first at `from`, each `distance`
// elements after the one before: always added in this order. Rows are dealt out in turn.
template <class T>
void unpack(int64_t rows, int64_t columns, View<T> from, int copies, int64_t distance, View<T> to,
            int share, int shares) {
  for (int64_t i = share; i < rows; i += shares) {
    for (int64_t j = 0; j < columns; ++j) {
      T sum = from(i, j);
      for (int thread = 1; thread < copies; ++thread)
        sum += from.data[thread * distance + i * from.stride + j];
      to(i, j) = sum;
    }
  }
}

}  // namespace fastcell::FASTCELL_ISA
