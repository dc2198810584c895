// Matrices in memory, and the vectors that move through them.
#pragma once

#include "math.h"
#include "program.h"

namespace fastcell::FASTCELL_ISA {

// A matrix by rows: element (i, j) at data[i * stride + j].
template <class T>
struct View {
  T* data;
  int64_t stride;

  FASTCELL_INLINE T& operator()(int64_t i, int64_t j) const { return data[i * stride + j]; }
  // the part of it that starts at (i, j)
  FASTCELL_INLINE View from(int64_t i, int64_t j) const { return {&(*this)(i, j), stride}; }
};

// Vectors as they lie in the machine's buffers (aligned) and in the caller's tensors (anyhow).
template <class T>
struct InMemory {
  typedef T aligned __attribute__((vector_size(FASTCELL_VECTOR_BYTES), may_alias));
  typedef T anyhow
      __attribute__((vector_size(FASTCELL_VECTOR_BYTES), may_alias, aligned(alignof(T))));
};

template <class T>
FASTCELL_INLINE Vector<T> load(const T* from) {
  return (Vector<T>)*(const typename InMemory<T>::aligned*)from;
}

template <class T>
FASTCELL_INLINE void store(T* to, Vector<T> value) {
  *(typename InMemory<T>::aligned*)to = value;
}

template <class T>
FASTCELL_INLINE Vector<T> load_anyhow(const T* from) {
  return (Vector<T>)*(const typename InMemory<T>::anyhow*)from;
}

template <class T>
FASTCELL_INLINE void store_anyhow(T* to, Vector<T> value) {
  *(typename InMemory<T>::anyhow*)to = value;
}

template <class T>
FASTCELL_INLINE void copy(int64_t width, const T* from, T* to) {
  int64_t j = 0;
  for (; j + lanes<T> <= width; j += lanes<T>) store_anyhow(to + j, load_anyhow(from + j));
  for (; j < width; ++j) to[j] = from[j];
}

// From a tensor into a buffer, pads and all; an absent tensor is read as zeros.
template <class T>
void read_rows(int64_t rows, int64_t width, View<T> tensor, View<T> buffer) {
  int64_t present = tensor.data ? width : 0;
  for (int64_t i = 0; i < rows; ++i) {
    copy(present, tensor.data + i * tensor.stride, &buffer(i, 0));
    for (int64_t j = present; j < padded(width); ++j) buffer(i, j) = 0;
  }
}

// From a buffer into a tensor; nothing is written to an absent one.
template <class T>
void write_rows(int64_t rows, int64_t width, View<T> buffer, View<T> tensor) {
  if (!tensor.data) return;
  for (int64_t i = 0; i < rows; ++i) copy(width, &buffer(i, 0), &tensor(i, 0));
}

}  // namespace fastcell::FASTCELL_ISA
