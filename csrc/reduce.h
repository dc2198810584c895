// Sums along a row (MEAN) and down the columns (SUMROWS).
#pragma once

#include "memory.h"

namespace fastcell::FASTCELL_ISA {

// Every column of to <- the mean of the first `width` columns of from, row by row. Summed in
// double, in as many parts as a vector has lanes.
template <class T>
void mean(int64_t rows, int64_t width, View<T> from, View<T> to) {
  for (int64_t i = 0; i < rows; ++i) {
    double part[lanes<T>] = {}, sum = 0;
    int64_t j = 0;
    for (; j + lanes<T> <= width; j += lanes<T>) {
      for (int64_t lane = 0; lane < lanes<T>; ++lane) part[lane] += from(i, j + lane);
    }
    for (; j < width; ++j) sum += from(i, j);
    for (double p : part) sum += p;
    Vector<T> result = Vector<T>{} + T(sum / width);
    for (int64_t to_j = 0; to_j < padded(width); to_j += lanes<T>) store(&to(i, to_j), result);
  }
}

// to (1 x width) += the sum of the rows of from (rows x width)
template <class T>
void sum_rows(int64_t rows, int64_t width, View<T> from, T* to) {
  constexpr int VECTORS = LANES / lanes<T>;
  for (int64_t column = 0; column < padded(width); column += LANES) {
    Vector<T> sum[VECTORS] = {};
    for (int64_t i = 0; i < rows; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) sum[v] += load(&from(i, column + v * lanes<T>));
    }
    for (int v = 0; v < VECTORS; ++v) {
      T* total = to + column + v * lanes<T>;
      store(total, load(total) + sum[v]);
    }
  }
}

}  // namespace fastcell::FASTCELL_ISA
