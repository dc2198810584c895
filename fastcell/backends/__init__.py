"""The engines that run a cell over a sequence: each reads a Cell, or the Programs made of it."""
