"""A cell as a torch.nn.Module of its own, in text: to read, to keep, to leave with.

The text holds two classes: one step, which has the parameters, and layers of it over a sequence.
Names are the cell's, except where torch's or Python's would be hidden: these take an underscore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .node import BROADCAST, LEARNABLE, Node
from .ops import BINARY
from .text import ATOM, Writer, format_number, statements

if TYPE_CHECKING:
    from .ir import Cell


def write_torch(cell: Cell) -> str:
    """The file: what it is, its imports, the helpers that the cell needs, and the two classes."""
    name = _class_name(cell.name)
    step = _write_step(cell, name)
    helpers = [text for helper, text in _HELPERS.items() if f"{helper}(" in step]
    imports = _IMPORTS + _IMPORT_FUNCTIONAL * any("functional." in t for t in (*helpers, step))
    forward = _STATES if len(cell.outputs) > 1 else _ONE_STATE
    layers = (_HEAD + forward).format(name=name, states=len(cell.outputs))
    title = _TITLE.format(name=cell.name, text=_indent(cell.text, 1))
    return "\n\n\n".join([f"{title}\n\n{imports}", *helpers, step, layers])


_TITLE = '''"""The recurrent cell {name} as a torch module. It needs torch and nothing else.

{text}
"""'''
_IMPORTS = """import torch
from torch import Tensor, nn"""
_IMPORT_FUNCTIONAL = """
from torch.nn import functional"""

_HELPERS = {
    "softsign_scaled": '''def softsign_scaled(a: Tensor) -> Tensor:
    """softsign moved from (-1, 1) to (0, 1)."""
    return 0.5 + 0.5 * functional.softsign(a)''',
    "layernorm": '''def layernorm(a: Tensor) -> Tensor:
    """Each row with mean 0 and variance 1."""
    return functional.layer_norm(a, a.shape[-1:])''',
    "rmsnorm": '''def rmsnorm(a: Tensor) -> Tensor:
    """Each row with mean square 1."""
    return a * torch.rsqrt(a.square().mean(-1, keepdim=True) + 1e-5)''',
}

_FUNCTIONS = {
    "sigmoid": "torch.sigmoid",
    "tanh": "torch.tanh",
    "softsign": "functional.softsign",
    "relu": "torch.relu",
    "silu": "functional.silu",
    "gelu": "functional.gelu",
    "exp": "torch.exp",
    "abs": "torch.abs",
} | {name: name for name in _HELPERS}

_STEP = '''class {name}Step(nn.Module):
    """One step: x (B, input_size) and states (B, hidden_size) to the new states."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
{parameters}

    def forward(self, {sources}) -> {result}:
{body}'''

_ELEMENTWISE = """if input_size != hidden_size:
    raise ValueError(f"input_size: expected hidden_size, {hidden_size}, found {input_size}")"""

_HEAD = '''class {name}Layers(nn.Module):
    """The cell over a sequence, in layers.

    x (T, B, input_size) and states (num_layers, B, hidden_size), zeros unless given, to the output
    (T, B, hidden_size) and the states after the last step; T >= 1.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        widths = [input_size] + [hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList({name}Step(width, hidden_size) for width in widths)

'''

_ONE_STATE = """\
    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if state is None:
            state = x.new_zeros(len(self.layers), x.shape[1], self.hidden_size)
        finals = []
        for layer, h in zip(self.layers, state):
            outputs = []
            for x_t in x:
                h = layer(x_t, h)
                outputs.append(h)
            x = torch.stack(outputs)
            finals.append(h)
        return x, torch.stack(finals)
"""

_STATES = """\
    def forward(
        self, x: Tensor, state: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        if state is None:
            zeros = x.new_zeros(len(self.layers), x.shape[1], self.hidden_size)
            state = (zeros,) * {states}
        finals = []
        for layer, *states in zip(self.layers, *state):
            outputs = []
            for x_t in x:
                states = layer(x_t, *states)
                outputs.append(states[0])
            x = torch.stack(outputs)
            finals.append(states)
        return x, tuple(torch.stack(each) for each in zip(*finals))
"""


def _write_step(cell: Cell, name: str) -> str:
    writer = _StepWriter(cell)
    parameters = [_parameter(node) for node in cell.nodes if node.param]
    start = ["super().__init__()", *[_ELEMENTWISE] * cell.uses_input_elementwise]
    several = len(cell.outputs) > 1
    return _STEP.format(
        name=name,
        parameters=_indent("\n".join([*start, *parameters]), 2),
        sources=", ".join(f"{writer.spell(str(node.name))}: Tensor" for node in cell.sources),
        result="tuple[Tensor, ...]" if several else "Tensor",
        body=_indent("\n".join(writer.body(cell)), 2),
    )


def _parameter(node: Node) -> str:
    """The line that makes the node's parameters."""
    held = f"self.{attribute(str(node.param))}"
    if node.op == "linear":
        bias = "" if node.bias else ", bias=False"
        return f"{held} = nn.Linear({_width(node)}, hidden_size{bias})"
    if node.op == "vector":
        return f"{held} = nn.Parameter(torch.full((hidden_size,), {node.value!r}))"
    return f"{held} = nn.Parameter(torch.tensor({node.value!r}))"


def _width(node: Node) -> str:
    """The sum of the sources' widths: "input_size + 2 * hidden_size"."""
    inputs = node.args.count(0)
    counts = {"input_size": inputs, "hidden_size": len(node.args) - inputs}
    terms = [f"{n} * {size}" if n > 1 else size for size, n in counts.items() if n]
    return " + ".join(terms)


class _StepWriter(Writer):
    """Expressions of torch: named values as variables, parameters as attributes."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        names = {str(node.name) for node in cell.nodes}
        self.variables = {name: _escape(name, _STEP_USES) for name in names}
        self.x, self.h = (self.spell(str(node.name)) for node in cell.sources[:2])
        self.batched = list[bool]()
        for node in cell.nodes:
            self.batched.append(self._is_batched(node))

    def body(self, cell: Cell) -> list[str]:
        """A line for each named value, and the return."""
        values = [(i, name) for i, name in statements(cell) if self.nodes[i].op not in LEARNABLE]
        lines = [f"{self.spell(name)} = {self.definition(index)}" for index, name in values]
        returned = ", ".join(self.row(output) for output in cell.outputs)
        return [*lines, f"return {returned}"]

    def spell(self, name: str) -> str:
        return self.variables[name]

    def reference(self, index: int) -> tuple[str, int]:
        node = self.nodes[index]
        if node.op in LEARNABLE:
            return f"self.{attribute(str(node.param))}", ATOM
        return super().reference(index)

    def row(self, index: int) -> str:
        """The value as (B, H), where a vector alone is not one."""
        if self.batched[index]:
            return self.reference(index)[0]
        return f"{self.operand(index, ATOM)}.expand_as({self.h})"

    def expression(self, node: Node) -> tuple[str, int]:
        if node.op == "const":
            return self.number(node)
        if node.op == "neg":
            return self.negation(node)
        if node.op in BINARY:
            return self.infix(node, f" {BINARY[node.op].symbol} ")
        if node.op == "linear":
            return f"self.{attribute(str(node.param))}({self._joined(node)})", ATOM
        return f"{_FUNCTIONS[node.op]}({self._argument(node.args[0])})", ATOM

    def _joined(self, node: Node) -> str:
        rows = [self.row(arg) for arg in node.args]
        return rows[0] if len(rows) == 1 else f"torch.cat([{', '.join(rows)}], dim=-1)"

    def _argument(self, index: int) -> str:
        """What a function of torch takes: a tensor, be it of a single number."""
        node = self.nodes[index]
        if node.op != "const":
            return self.reference(index)[0]
        assert node.value is not None
        return f"{self.x}.new_tensor({format_number(node.value)})"

    def _is_batched(self, node: Node) -> bool:
        if node.op in BROADCAST or node.op == "vector":
            return False
        return not node.args or node.op == "linear" or any(self.batched[arg] for arg in node.args)


def _indent(text: str, levels: int) -> str:
    return "\n".join(f"{'    ' * levels}{line}" for line in text.splitlines())


def _class_name(name: str) -> str:
    """adding_dag -> AddingDag."""
    words = "".join(word[0].upper() + word[1:] for word in name.split("_") if word)
    return words if words[:1].isalpha() else f"Cell{words}"


def attribute(name: str) -> str:
    """The parameter's attribute, as `Recurrent` has it: weights of one load into the other."""
    return _escape(name, _MODULE)


def _escape(name: str, taken: frozenset[str]) -> str:
    """The name, with one underscore more if it is taken.

    A name that is such a name and underscores takes one too, so that no two names become one.
    """
    trimmed = (name[:length] for length in range(len(name.rstrip("_")), len(name) + 1))
    return f"{name}_" if any(each in taken for each in trimmed) else name


_STEP_USES = frozenset({"self", "torch", "functional"})

_NAMES = """
T_destination __annotations__ __call__ __class__ __delattr__ __dict__ __dir__ __doc__ __eq__
__format__ __ge__ __getattr__ __getattribute__ __getstate__ __gt__ __hash__ __init__
__init_subclass__ __le__ __lt__ __module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__
__setattr__ __setstate__ __sizeof__ __str__ __subclasshook__ __weakref__ _apply _backward_hooks
_backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
_forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks
_forward_pre_hooks_with_kwargs _get_backward_hooks _get_backward_pre_hooks _get_name
_is_full_backward_hook _learnable _load_from_state_dict _load_state_dict_post_hooks
_load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules _named_members
_non_persistent_buffers_set _parameters _places _register_load_state_dict_pre_hook
_register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward
_state_dict_hooks _state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16
buffers call_super_init children compile cpu cuda double dtype dump_patches eval extra_repr float
forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia
named_buffers named_children named_modules named_parameters parameters register_backward_hook
register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook
requires_grad_ reset_parameters set_extra_state set_submodule share_memory state_dict tensors to
to_empty train training type xpu zero_grad
"""
_MODULE = frozenset(_NAMES.split())
"""What nn.Module and the modules of `Recurrent` keep for themselves."""
