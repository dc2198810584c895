"""The meta-model: what labels say of cells that were never trained. `fit` makes a predictor."""
