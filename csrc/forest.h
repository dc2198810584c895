// Binary trees on rows of numbers: what gradient boosting leaves, evaluated in blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace fastcell {

// A row goes left where row[column] <= threshold. A leaf leads to itself.
struct TreeNode {
  float threshold;
  std::int32_t column, left, right;
};

class Forest {
 public:
  // Nodes of all trees; the root, depth and output of each tree. A tree adds the value of the leaf
  // that a row ends in to its output. Throws std::invalid_argument for an index that leads out.
  Forest(std::vector<TreeNode> nodes, std::vector<float> values, std::vector<std::int32_t> roots,
         std::vector<std::int32_t> depths, std::vector<std::int32_t> outputs, std::int32_t columns)
      : nodes_(std::move(nodes)),
        values_(std::move(values)),
        roots_(std::move(roots)),
        depths_(std::move(depths)),
        outputs_(std::move(outputs)),
        columns_(columns) {
    if (values_.size() != nodes_.size() || depths_.size() != roots_.size() ||
        outputs_.size() != roots_.size())
      throw std::invalid_argument("forest: expected arrays that fit each other");
    for (const TreeNode& node : nodes_) check(node.column, columns_);
    for (const TreeNode& node : nodes_) check_node(node.left), check_node(node.right);
    for (std::int32_t root : roots_) check_node(root);
    for (std::int32_t output : outputs_) {
      check(output, kMostOutputs);
      width_ = std::max(width_, output + 1);
    }
  }

  std::int32_t columns() const { return columns_; }
  std::int32_t width() const { return width_; }

  // rows (n, columns) to out (n, width). A block of rows descends a tree in step, so that their
  // loads overlap; the tree stays in the cache for the blocks that follow.
  void evaluate(const float* rows, std::size_t n, float* out) const {
    std::fill(out, out + n * width_, 0.0f);
    for (std::size_t first = 0; first < n; first += kChunk) {
      const std::size_t last = std::min(n, first + kChunk);
      for (std::size_t tree = 0; tree < roots_.size(); ++tree)
        for (std::size_t row = first; row < last; row += kBlock)
          descend(tree, rows + row * columns_, std::min<std::size_t>(kBlock, last - row),
                  out + row * width_ + outputs_[tree]);
    }
  }

 private:
  static constexpr std::size_t kBlock = 16, kChunk = 256;
  static constexpr std::int32_t kMostOutputs = 1024;

  static void check(std::int32_t index, std::int64_t size) {
    if (index < 0 || index >= size)
      throw std::invalid_argument("forest: expected indices within their arrays");
  }

  void check_node(std::int32_t node) const { check(node, std::int64_t(nodes_.size())); }

  void descend(std::size_t tree, const float* rows, std::size_t n, float* out) const {
    std::int32_t at[kBlock];
    std::fill(at, at + n, roots_[tree]);
    for (std::int32_t level = 0; level < depths_[tree]; ++level)
      for (std::size_t i = 0; i < n; ++i) {
        const TreeNode& node = nodes_[at[i]];
        at[i] = rows[i * columns_ + node.column] <= node.threshold ? node.left : node.right;
      }
    for (std::size_t i = 0; i < n; ++i) out[i * width_] += values_[at[i]];
  }

  std::vector<TreeNode> nodes_;
  std::vector<float> values_;
  std::vector<std::int32_t> roots_, depths_, outputs_;
  std::int32_t columns_, width_ = 0;
};

}  // namespace fastcell
