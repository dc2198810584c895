"""The language of cells: a whitelisted Python subset, parsed and never executed.

    cell       :=  "def" NAME "(" input "," state ("," state)* ")" ":" statement* return
    statement  :=  NAME "=" value
    return     :=  "return" value ("," value)*          one new state per state, the output first
    value      :=  NUMBER | NAME | "-" value | value ("+" | "-" | "*" | "/") value | call
    call       :=  FUNCTION "(" value ")"                                 see `ops.FUNCTIONS`
                 | "linear" "(" value ("," value)* ["," "bias" "=" ("True" | "False")] ")"
                 | "gate" "(" value ("," value)+ ")"       gate(a, b, v) = sigmoid(linear(a, b)) * v
                 | ("scalar" | "vector") "(" number ")"    learnable, with its initial value

A name is given once. A parameter is named after the variable that its statement assigns (after
the state, in the return): `g = tanh(linear(x, h))` has g.weight and g.bias. A second one in the
same statement is g_2, and so on. A source that is never read starts with an underscore.
"""

import ast
import inspect
import math
import re
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, TypeAlias

from .errors import LanguageError
from .ir import Cell
from .node import PARAMETERS, Builder, Node, prune
from .ops import BINARY, FUNCTIONS, ROWWISE

MAX_CHARACTERS = 100_000
MAX_DEPTH = 50

_INFIX = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div"}
_RESERVED = FUNCTIONS | PARAMETERS | {"gate"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Place: TypeAlias = ast.expr | ast.stmt | ast.arg


def cell(function: Callable[..., object]) -> Cell:
    """The Cell that a function's source describes; the function itself is never called.

    Raises LanguageError, with lines of the file the function stands in.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        expected = "a function with its source in a file: give the text to fastcell.parse instead"
        fail_at(1, 1, repr(function), expected)
    return _parse(textwrap.dedent("".join(lines)), first_line=max(first, 1))


def parse(text: str) -> Cell:
    """The Cell that a text describes. Raises LanguageError (line, column, found, expected)."""
    if not isinstance(text, str):
        fail_at(1, 1, type(text).__name__, "a string")
    return _parse(textwrap.dedent(text), first_line=1)


def fail_at(line: int, column: int, found: str, expected: str) -> NoReturn:
    raise LanguageError(line, column, found, expected)


def _parse(text: str, first_line: int) -> Cell:
    if len(text) > MAX_CHARACTERS:
        found, mend = f"{len(text):,} characters", "a cell is one step of a network"
        fail_at(first_line, 1, found, f"at most {MAX_CHARACTERS:,}: {mend}")
    return _Parser(first_line).cell(_function(text, first_line))


def _function(text: str, first_line: int) -> ast.FunctionDef:
    """The one function of the text, as syntax."""
    body = _syntax(text, first_line).body
    if len(body) == 1 and isinstance(body[0], ast.FunctionDef):
        return body[0]
    expected = "one function: def cell(x, h): ..."
    if not body:
        fail_at(first_line, 1, "nothing", expected)
    odd = next((each for each in body if not isinstance(each, ast.FunctionDef)), body[-1])
    found = "a second function" if isinstance(odd, ast.FunctionDef) else _describe(odd)
    fail_at(first_line + odd.lineno - 1, 1, found, expected)


def _syntax(text: str, first_line: int) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line, column = first_line + (error.lineno or 1) - 1, error.offset or 1
        fail_at(line, column, f"a syntax error ({error.msg})", "Python syntax")
    except (RecursionError, MemoryError):
        fail_at(first_line, 1, "an expression nested too deeply", f"at most {MAX_DEPTH} levels")
    except ValueError as error:
        fail_at(first_line, 1, f"unreadable text ({error})", "plain text")


class _Parser:
    """One function to one Cell: a symbol table over an interning builder."""

    def __init__(self, first_line: int) -> None:
        self.builder = Builder()
        self.values: dict[str, int] = {}
        self.first_line = first_line
        self.target = ""
        self.in_statement = 0
        self.depth = 0
        self.parameters: set[str] = set()

    def fail(self, at: _Place, found: str, expected: str) -> NoReturn:
        fail_at(self.first_line + at.lineno - 1, at.col_offset + 1, found, expected)

    def cell(self, function: ast.FunctionDef) -> Cell:
        self.ascii_name(function, function.name)
        self.signature(function)
        states = list(self.values)[1:]
        *body, last = function.body
        for position, statement in enumerate(body):
            if not (position == 0 and _is_docstring(statement)):
                self.statement(statement)
        returned = self.returned(last, states)
        result = Cell(function.name, *prune(self.builder.nodes, 1 + len(states), returned))
        self.check_read(function, result)
        return result

    def signature(self, function: ast.FunctionDef) -> None:
        """The input and the states become the first nodes."""
        for decorator in function.decorator_list:
            shown = _show(decorator)
            if shown not in ("cell", "fastcell.cell"):
                self.fail(decorator, f"decorator {shown}", "no decorator but @fastcell.cell")
        arguments = function.args
        plain = arguments.args
        other = [arguments.vararg, arguments.kwarg, *arguments.kwonlyargs, *arguments.posonlyargs]
        for argument in filter(None, other):
            self.fail(argument, f"special argument '{argument.arg}'", "plain names only")
        for default in arguments.defaults:
            self.fail(default, f"default {_show(default)}", "states without defaults")
        if len(plain) < 2:
            found = f"{len(plain)} argument(s)"
            self.fail(function, found, "the input and at least one state: (x, h)")
        for position, argument in enumerate(plain):
            op = "state" if position else "input"
            name = self.new_name(argument, argument.arg)
            # The position keeps two sources from being the same node.
            index = self.builder.add(Node(op, name=name, value=float(position)))
            self.values[name] = index

    def statement(self, statement: ast.stmt) -> None:
        """NAME = value"""
        if isinstance(statement, ast.Return):
            self.fail(statement, "an early return", "one return, as the last line")
        if not isinstance(statement, ast.Assign):
            self.fail(statement, _describe(statement), "name = expression")
        target = statement.targets[0]
        if len(statement.targets) > 1 or not isinstance(target, ast.Name):
            self.fail(statement, _show(target), "one name on the left of '='")
        name = self.new_name(target, target.id)
        self.begin(name)
        index = self.value(statement.value)
        self.builder.rename(index, name)
        self.values[name] = index

    def returned(self, last: ast.stmt, states: list[str]) -> list[int]:
        """return value, value, ...: one new state per state."""
        if not isinstance(last, ast.Return) or last.value is None:
            self.fail(last, _describe(last), "'return' with one new state per state")
        values = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
        if len(values) != len(states):
            expected = f"{len(states)}, one per state ({', '.join(states)})"
            self.fail(last, f"{len(values)} returned value(s)", expected)
        return [self.new_state(value, state) for value, state in zip(values, states, strict=True)]

    def new_state(self, value: ast.expr, state: str) -> int:
        self.begin(state)
        index = self.value(value)
        self.expect_row(value, index, f"a row of H values for state '{state}'")
        return index

    def begin(self, target: str) -> None:
        """Parameters from here on are named after `target`."""
        self.target, self.in_statement = target, 0

    def ascii_name(self, at: _Place, name: str) -> None:
        if not _NAME.fullmatch(name):
            self.fail(at, f"name '{name}'", "a name of ASCII letters, digits and underscores")

    def new_name(self, at: _Place, name: str) -> str:
        self.ascii_name(at, name)
        if name in _RESERVED:
            found = f"'{name}', which would shadow a function of the language"
            self.fail(at, found, "another name")
        if name in self.values:
            self.fail(at, f"a second '{name}'", "a new name: each is given once")
        return name

    def expect_row(self, at: ast.expr, index: int, expected: str) -> None:
        if self.builder.broadcast[index]:
            self.fail(at, f"the single number {_show(at)}", expected)

    def value(self, expression: ast.expr) -> int:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            found = f"an expression nested more than {MAX_DEPTH} deep"
            self.fail(expression, found, "shorter expressions: name the parts")
        index = self.expression(expression)
        self.depth -= 1
        return index

    def expression(self, expression: ast.expr) -> int:  # noqa: RET503 (fail does not return)
        match expression:
            case ast.Constant():
                return self.constant(expression)
            case ast.Name(id=name):
                if name not in self.values:
                    known = ", ".join(self.values)
                    self.fail(expression, f"unknown name '{name}'", f"one of {known}")
                return self.values[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.negated(self.value(operand))
            case ast.BinOp(left=left, op=operator, right=right):
                if type(operator).__name__ not in _INFIX:
                    found = f"operator {type(operator).__name__}"
                    self.fail(expression, found, "one of + - * /")
                op = _INFIX[type(operator).__name__]
                return self.infix(expression, op, self.value(left), self.value(right))
            case ast.Call(func=ast.Name(id=name)):
                return self.call(expression, name)
        self.fail(expression, _describe(expression), "a number, a name, + - * / or a call")

    def constant(self, expression: ast.Constant) -> int:
        value = expression.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(expression, _show(expression), "a number")
        return self.number(expression, value)

    def number(self, at: ast.expr, value: float) -> int:
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            self.fail(at, _show(at), "a finite number")
        return self.builder.add(Node("const", value=value))

    def negated(self, index: int) -> int:
        """A negative number is a number: -2 is not neg(2)."""
        node = self.builder.nodes[index]
        if node.op == "const":
            assert node.value is not None
            return self.builder.add(replace(node, value=0.0 - node.value))
        return self.builder.add(Node("neg", (index,)))

    def infix(self, at: ast.expr, op: str, *args: int) -> int:
        """Numbers fold, so that the graph holds no arithmetic of constants."""
        left, right = (self.builder.nodes[arg] for arg in args)
        if op == "div" and right.op == "const" and right.value == 0:
            self.fail(at, "a division by zero", "a divisor other than 0")
        if left.op == right.op == "const":
            return self.number(at, BINARY[op].forward(left.value, right.value))
        return self.builder.add(Node(op, args))

    def call(self, call: ast.Call, name: str) -> int:
        if name in FUNCTIONS:
            return self.unary(call, name)
        written: dict[str, Callable[[ast.Call], int]] = {
            "linear": self.linear,
            "gate": self.gate,
            "scalar": self.learnable,
            "vector": self.learnable,
        }
        if name not in written:
            known = ", ".join(sorted(_RESERVED))
            self.fail(call, f"unknown function '{name}'", f"one of {known}")
        return written[name](call)

    def arguments(self, call: ast.Call, least: int, most: int | None, shape: str) -> list[ast.expr]:
        """The positional arguments; `shape` shows the call as it should be."""
        for argument in call.args:
            if isinstance(argument, ast.Starred):
                self.fail(argument, _show(argument), shape)
        if len(call.args) < least or (most is not None and len(call.args) > most):
            self.fail(call, f"{len(call.args)} argument(s)", shape)
        return call.args

    def no_keywords(self, call: ast.Call, shape: str) -> None:
        for keyword in call.keywords:
            self.fail(keyword.value, _show_keyword(keyword), shape)

    def unary(self, call: ast.Call, name: str) -> int:
        shape = f"{name}(value)"
        self.no_keywords(call, shape)
        (argument,) = self.arguments(call, 1, 1, shape)
        index = self.value(argument)
        if name == "neg":
            return self.negated(index)
        if name in ROWWISE:
            self.expect_row(argument, index, f"a row of H values in {shape}")
        return self.builder.add(Node(name, (index,)))

    def linear(self, call: ast.Call) -> int:
        shape = "linear(a, b, ..., bias=True)"
        sources = self.sources(self.arguments(call, 1, None, shape), shape)
        bias = True
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg != "bias" or not isinstance(value, ast.Constant):
                self.fail(value, _show_keyword(keyword), shape)
            if not isinstance(value.value, bool):
                self.fail(value, f"bias={_show(value)}", "bias=True or bias=False")
            bias = value.value
        return self.parameter(call, Node("linear", sources, bias=bias))

    def gate(self, call: ast.Call) -> int:
        shape = "gate(a, b, ..., value), which is sigmoid(linear(a, b, ...)) * value"
        self.no_keywords(call, shape)
        *contexts, value = self.arguments(call, 2, None, shape)
        product = self.parameter(call, Node("linear", self.sources(contexts, shape), bias=True))
        squashed = self.builder.add(Node("sigmoid", (product,)))
        return self.builder.add(Node("mul", (squashed, self.value(value))))

    def sources(self, expressions: list[ast.expr], shape: str) -> tuple[int, ...]:
        indices = tuple(map(self.value, expressions))
        for expression, index in zip(expressions, indices, strict=True):
            self.expect_row(expression, index, f"a row of values in {shape}")
        return indices

    def learnable(self, call: ast.Call) -> int:
        assert isinstance(call.func, ast.Name)
        op = call.func.id
        shape = f"{op}(initial value)"
        self.no_keywords(call, shape)
        (argument,) = self.arguments(call, 1, 1, shape)
        node = self.builder.nodes[self.value(argument)]
        if node.op != "const":
            self.fail(argument, _show(argument), f"a number in {shape}")
        return self.parameter(call, Node(op, value=node.value))

    def parameter(self, at: ast.expr, node: Node) -> int:
        """A node of its own, named after the statement's target."""
        self.in_statement += 1
        name = self.target if self.in_statement == 1 else f"{self.target}_{self.in_statement}"
        if name in self.parameters:
            self.fail(at, f"a second parameter named '{name}'", "a variable of its own for it")
        self.parameters.add(name)
        return self.builder.add(replace(node, param=name))

    def check_read(self, function: ast.FunctionDef, result: Cell) -> None:
        """A source that no output depends on is a slip, unless its name says that it is meant."""
        read = {arg for node in result.nodes for arg in node.args} | set(result.outputs)
        for index, (argument, node) in enumerate(
            zip(function.args.args, result.sources, strict=True)
        ):
            if index not in read and not (node.name or "").startswith("_"):
                expected = f"it in a returned value, or '_{node.name}' if that is meant"
                self.fail(argument, f"'{node.name}', which is never used", expected)


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _describe(node: ast.AST) -> str:
    """The kind of syntax in words: 'for', 'attribute', 'if expression'."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(node).__name__).lower()
    return {"if exp": "if expression", "expr": "a bare expression"}.get(words, words)


def _show_keyword(keyword: ast.keyword) -> str:
    return f"keyword '{keyword.arg}'" if keyword.arg else f"**{_show(keyword.value)}"


def _show(node: ast.AST) -> str:
    """The text of a piece of syntax, cut to a readable length."""
    try:
        return textwrap.shorten(ast.unparse(node), 40, placeholder="...")
    except RecursionError:
        return "an expression"
