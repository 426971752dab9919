"""Several numbers at once, for compiled functions: 4 in double precision, or 8 in single, side by side.

Rows of a linear model are short, and compilers do not find such vectors in loops over a few numbers. Whatever the
processor is, they are turned into what it has.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, register_model

# numba's and llvmlite's own functions carry no types, hence the two calls that mypy is told not to look at.
#: Of no type: what it makes are functions for compiled code only.
intrinsic: Any = extending.intrinsic
#: How many numbers are side by side.
DOUBLES, SINGLES = 4, 8


class _Side(types.Type):
    """The type of numbers side by side."""

    def __init__(self, number: Any, lanes: int) -> None:
        self.number, self.lanes = number, lanes
        super().__init__(name=f"{lanes} x {number}")


_OF = {types.float64: _Side(types.float64, DOUBLES), types.float32: _Side(types.float32, SINGLES)}
#: A product that is added may be rounded once, with the sum.
_FUSED = ("contract",)


@register_model(_Side)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, side: Any) -> None:
        number = ir.DoubleType() if side.number == types.float64 else ir.FloatType()
        super().__init__(manager, side, ir.VectorType(number, side.lanes))  # type: ignore[no-untyped-call] # numba's


def _pointer(context: Any, builder: Any, side: Any, array_type: Any, array: Any, index: Any) -> Any:
    numbers = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(numbers, [index]), context.get_value_type(side).as_pointer())


@intrinsic
def load(_: Any, array: Any, index: Any) -> Any:
    """Return numbers of a contiguous array from an index on, counted as if it had one dimension; none is checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = builder.load(_pointer(context, builder, signature.return_type, signature.args[0], *arguments))
        found.align = 4
        return found

    return _OF[array.dtype](array, types.intp), generate


@intrinsic
def store(_: Any, array: Any, index: Any, side: Any) -> Any:
    """Write numbers to a contiguous array from an index on, which is not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[2], signature.args[0], *arguments[:2])
        builder.store(arguments[2], pointer).align = 4
        return context.get_dummy_value()

    return types.void(array, types.intp, side), generate


@intrinsic
def fetch(_: Any, array: Any, index: Any) -> Any:
    """Have a number of a contiguous array brought near, for a later load."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, how = ir.IntType(8).as_pointer(), ir.IntType(32)
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        there = builder.bitcast(builder.gep(numbers, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, how, how, how])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call] # numba's
        builder.call(prefetch, [there, how(0), how(3), how(1)])  # to read, to keep, and it is data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@intrinsic
def spread(_: Any, number: Any) -> Any:
    """Return a number beside itself."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        nothing, first = ir.Constant(vector, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(nothing, arguments[0], first)
        return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))

    return _OF[number](number), generate


@intrinsic
def product(_: Any, a: Any, b: Any) -> Any:
    """Return a x b, each with its neighbour."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments, flags=_FUSED)

    return a(a, a), generate


@intrinsic
def add_product(_: Any, summed: Any, a: Any, b: Any) -> Any:
    """Return summed + a x b, each with its neighbours."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        multiplied = builder.fmul(arguments[1], arguments[2], flags=_FUSED)
        return builder.fadd(arguments[0], multiplied, flags=_FUSED)

    return a(a, a, a), generate


@intrinsic
def total(_: Any, side: Any) -> Any:
    """Return the sum of 4 numbers side by side."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = [builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), i)) for i in range(DOUBLES)]
        return builder.fadd(builder.fadd(one[0], one[2]), builder.fadd(one[1], one[3]))

    return types.float64(side), generate
