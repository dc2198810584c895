"""Published experiments, run again with many seeds: a module for each."""
