"""Recurrent modules: any cell with `Recurrent`, and torch.nn's own by their names."""

from .recurrent import Recurrent
from .torch_modules import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell", "Recurrent"]
