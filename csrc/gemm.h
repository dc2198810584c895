// Matrix products on a tile: register-blocked micro-kernels.
//
// W (K x N) is packed: its columns are cut into panels as wide as a kernel (the last may be half
// as wide), each stored as K consecutive rows. A kernel keeps M rows of one panel of the result in
// registers while it goes through K.
#pragma once

#include "memory.h"
#include "program.h"

namespace fastcell::FASTCELL_ISA {

// Vectors to a panel, and rows to a kernel: 2 * ROWS sums, 2 vectors of W and 1 element of A fit
// into 16 registers (32 in AVX-512).
constexpr int PANEL_VECTORS = 2;
constexpr int KERNEL_ROWS = FASTCELL_VECTOR_BYTES == 64 ? 12 : 6;
template <class T>
constexpr int64_t panel_width = PANEL_VECTORS * lanes<T>;

// Rows of W that a product goes through at a time: so much of a panel stays in the L1 cache while
// the rows of A pass.
constexpr int64_t SLAB = 256;

template <class T, int M, int VECTORS>
struct Kernel {
  using V = Vector<T>;

  // A multiply-add takes 4 cycles and two can start in each, so 8 sums must be under way: where
  // there are fewer, each is split into PARTS, by k modulo PARTS.
  static constexpr int PARTS = M * VECTORS >= 8 ? 1 : M * VECTORS >= 4 ? 2 : 4;

  // c (M x VECTORS) <- a (M x K) w (K x VECTORS) + what `mode` says
  static void product(int64_t K, View<T> a, const T* w, View<T> c, int32_t mode, const T* bias) {
    V sum[PARTS][M][VECTORS] = {};
    int64_t k = 0;
    for (; k + PARTS <= K; k += PARTS) {
#pragma GCC unroll 4
      for (int part = 0; part < PARTS; ++part) add_step(sum[part], a, w, k + part);
    }
    for (; k < K; ++k) add_step(sum[0], a, w, k);
#pragma GCC unroll 4
    for (int part = 1; part < PARTS; ++part) {
      for_all([&](int i, int j) { sum[0][i][j] += sum[part][i][j]; });
    }
    if (mode == ADD) for_all([&](int i, int j) { sum[0][i][j] += load(&c(i, j * lanes<T>)); });
    if (mode == BIAS) for_all([&](int i, int j) { sum[0][i][j] += load(bias + j * lanes<T>); });
    for_all([&](int i, int j) { store(&c(i, j * lanes<T>), sum[0][i][j]); });
  }

  // c (M x VECTORS) += a^T b, a (rows x M), b (rows x VECTORS)
  static void outer(int64_t rows, View<T> a, View<T> b, View<T> c) {
    V sum[M][VECTORS] = {};
    for (int64_t row = 0; row < rows; ++row) add_step(sum, {&a(row, 0), 1}, &b(row, 0), 0);
    for_all([&](int i, int j) {
      T* to = &c(i, j * lanes<T>);
      store(to, load(to) + sum[i][j]);
    });
  }

 private:
  // sum += (column k of a) (row k of w)
  static FASTCELL_INLINE void add_step(V (&sum)[M][VECTORS], View<T> a, const T* w, int64_t k) {
    V row[VECTORS];
#pragma GCC unroll 2
    for (int j = 0; j < VECTORS; ++j) row[j] = load(w + (k * VECTORS + j) * lanes<T>);
    for_all([&](int i, int j) { sum[i][j] += a(i, k) * row[j]; });
  }

  template <class Use>
  static FASTCELL_INLINE void for_all(Use use) {
#pragma GCC unroll 12
    for (int i = 0; i < M; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < VECTORS; ++j) use(i, j);
    }
  }
};

template <int N>
struct Number {
  static constexpr int value = N;
};

// use(Number<rows>), for 1 <= rows <= KERNEL_ROWS
template <int M = KERNEL_ROWS, class Use>
FASTCELL_INLINE void with_rows(int64_t rows, Use use) {
  if (rows == M) {
    use(Number<M>{});
  } else if constexpr (M > 1) {
    with_rows<M - 1>(rows, use);
  }
}

// Cuts `rows` into blocks of KERNEL_ROWS, the last two sharing what is left: kernels of few rows
// are slow. Calls block(first row, Number<rows of the block>).
template <class Block>
FASTCELL_INLINE void for_row_blocks(int64_t rows, Block block) {
  for (int64_t first = 0, size; first < rows; first += size) {
    int64_t left = rows - first;
    size = left >= 2 * KERNEL_ROWS || left == KERNEL_ROWS ? KERNEL_ROWS
           : left > KERNEL_ROWS                           ? (left + 1) / 2
                                                          : left;
    with_rows(size, [&](auto M) { block(first, M); });
  }
}

// Calls panel(first column, Number<vectors>) for the panels of `columns`, a multiple of LANES.
template <class T, class Panel>
FASTCELL_INLINE void for_panels(int64_t columns, Panel panel) {
  int64_t first = 0;
  for (; first + panel_width<T> <= columns; first += panel_width<T>) {
    panel(first, Number<PANEL_VECTORS>{});
  }
  if constexpr (LANES % panel_width<T> != 0) {
    if (first < columns) panel(first, Number<1>{});
  }
}

// c (rows x N) <- a (rows x K) w (K x N, packed) + what `mode` says; bias (N)
template <class T>
void product(int64_t rows, int64_t K, int64_t N, View<T> a, const T* w, View<T> c, int32_t mode,
             const T* bias) {
  for (int64_t k = 0; k < K; k += SLAB, mode = ADD) {
    int64_t depth = K - k < SLAB ? K - k : SLAB;
    for_panels<T>(padded(N), [&](int64_t column, auto vectors) {
      const T* panel = w + column * K + k * vectors.value * lanes<T>;
      for_row_blocks(rows, [&](int64_t row, auto M) {
        Kernel<T, M.value, vectors.value>::product(depth, a.from(row, k), panel,
                                                   c.from(row, column), mode, bias + column);
      });
    });
  }
}

// c (N x K) += a^T b, a (rows x N), b (rows x K)
template <class T>
void outer(int64_t rows, int64_t N, int64_t K, View<T> a, View<T> b, View<T> c) {
  for_panels<T>(padded(K), [&](int64_t column, auto vectors) {
    for_row_blocks(N, [&](int64_t row, auto M) {
      Kernel<T, M.value, vectors.value>::outer(rows, a.from(0, row), b.from(0, column),
                                               c.from(row, column));
    });
  });
}

}  // namespace fastcell::FASTCELL_ISA
