// Binary trees on rows of numbers: what gradient boosting leaves, evaluated in blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fastcell {

// A row goes left where row[column] <= threshold. A leaf leads to itself.
struct TreeNode {
  float threshold;
  std::int32_t column, left, right;
};

// No row descends a tree. A row keeps a bit per leaf, from the left; each split clears, where the
// row goes right, the leaves at its left. The lowest bit left is the leaf that the row ends in.
// Splits need no order, so a row of a block is a lane, and nothing branches.
//
// Source: Lucchese et al., QuickScorer (SIGIR 2015).
class Forest {
 public:
  // Nodes of all trees; the root and output of each tree. A tree adds the value of the leaf that a
  // row ends in to its output. Throws std::invalid_argument for an index that leads out, and for
  // a tree of more than kMostLeaves leaves.
  Forest(const std::vector<TreeNode>& nodes, const std::vector<float>& values,
         const std::vector<std::int32_t>& roots, const std::vector<std::int32_t>& outputs,
         std::int32_t columns)
      : columns_(columns) {
    if (values.size() != nodes.size() || outputs.size() != roots.size())
      throw std::invalid_argument("forest: expected arrays that fit each other");
    for (std::size_t i = 0; i < roots.size(); ++i) {
      check(outputs[i], kMostOutputs);
      width_ = std::max(width_, outputs[i] + 1);
      const std::size_t first = leaves_.size();
      trees_.push_back({splits_.size(), 0, first, outputs[i]});
      add(nodes, values, roots[i], first);
      trees_.back().end = splits_.size();
    }
  }

  std::int32_t columns() const { return columns_; }
  std::int32_t width() const { return width_; }

  // rows (n, columns) to out (n, width).
  void evaluate(const float* rows, std::size_t n, float* out) const {
    std::fill(out, out + n * width_, 0.0f);
    std::vector<float> block(std::size_t(columns_) * kBlock);
    for (std::size_t first = 0; first < n; first += kBlock) {
      const std::size_t count = std::min(kBlock, n - first);
      transpose(rows + first * columns_, count, block.data());
      for (const Tree& tree : trees_) add_leaves(tree, block.data(), count, out + first * width_);
    }
  }

 private:
  using Leaves = std::uint32_t;
  static constexpr std::size_t kMostLeaves = 32, kBlock = 128;
  static constexpr std::int32_t kMostOutputs = 1024;

  struct Split {
    float threshold;
    std::int32_t column;
    Leaves if_right;  // all leaves but those at the left
  };
  struct Tree {
    std::size_t begin, end, leaves;  // of splits_, and the first of leaves_
    std::int32_t output;
  };

  static void check(std::int32_t index, std::int64_t size) {
    if (index < 0 || index >= size)
      throw std::invalid_argument("forest: expected indices within their arrays");
  }

  // The node and all below it; leaves from the left. A cycle has no end, nor then has the tree.
  void add(const std::vector<TreeNode>& nodes, const std::vector<float>& values, std::int32_t at,
           std::size_t first) {
    check(at, std::int64_t(nodes.size()));
    const TreeNode& node = nodes[at];
    check(node.column, columns_);
    if (leaves_.size() - first >= kMostLeaves ||
        splits_.size() - trees_.back().begin >= kMostLeaves)
      throw std::invalid_argument("forest: expected trees of up to 32 leaves");
    if (node.left == at && node.right == at) return leaves_.push_back(values[at]);
    const std::size_t split = splits_.size(), leftmost = leaves_.size() - first;
    splits_.push_back({node.threshold, node.column, 0});
    add(nodes, values, node.left, first);
    splits_[split].if_right = ~(below(leaves_.size() - first) & ~below(leftmost));
    add(nodes, values, node.right, first);
  }

  // The lowest n bits.
  static Leaves below(std::size_t n) { return Leaves((std::uint64_t(1) << n) - 1); }

  // To (columns, kBlock), so that a split reads its column in order.
  void transpose(const float* rows, std::size_t count, float* block) const {
    for (std::size_t row = 0; row < count; ++row)
      for (std::int32_t column = 0; column < columns_; ++column)
        block[column * kBlock + row] = rows[row * columns_ + column];
  }

  void add_leaves(const Tree& tree, const float* block, std::size_t count, float* out) const {
    Leaves left[kBlock];
    std::fill(left, left + kBlock, ~Leaves(0));
    for (std::size_t i = tree.begin; i < tree.end; ++i) {
      const Split split = splits_[i];
      const float* column = block + split.column * kBlock;
      for (std::size_t row = 0; row < kBlock; ++row)
        left[row] &= column[row] <= split.threshold ? ~Leaves(0) : split.if_right;
    }
    const float* leaves = leaves_.data() + tree.leaves;
    for (std::size_t row = 0; row < count; ++row)
      out[row * width_ + tree.output] += leaves[__builtin_ctz(left[row])];
  }

  std::vector<Tree> trees_;
  std::vector<Split> splits_;
  std::vector<float> leaves_;
  std::int32_t columns_, width_ = 0;
};

}  // namespace fastcell
