"""Loads from memory for kernels: integers by one load (and a swap, where they are big-endian), and cache lines fetched ahead.

The caller has checked the bounds.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _loads(bits: int, *, swap: bool = True):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """Return the code of a load that swaps its bytes or not (all machines that numba supports are little-endian)."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(bits).as_pointer()))
        word.align = 1
        return builder.bswap(word) if swap else word

    return codegen


@intrinsic
def load_int32(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the signed integer of ``data[at : at + 4]``."""
    return types.int32(data, types.intp), _loads(32)


@intrinsic
def load_uint32(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the unsigned integer of ``data[at : at + 4]``, as an int64."""
    load = _loads(32)
    return types.int64(data, types.intp), lambda *given: given[1].zext(load(*given), ir.IntType(64))


@intrinsic
def load_int64(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the signed integer of ``data[at : at + 8]``."""
    return types.int64(data, types.intp), _loads(64)


@intrinsic
def load_little_int32(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the signed little-endian integer of ``data[at : at + 4]``."""
    return types.int32(data, types.intp), _loads(32, swap=False)


@intrinsic
def load_little_int64(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the signed little-endian integer of ``data[at : at + 8]``."""
    return types.int64(data, types.intp), _loads(64, swap=False)


@intrinsic
def prefetch(typingctx, data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Let the CPU fetch the cache line of ``data[at]``, which will be read soon."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(data, byte), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        for_reading, keep_in_second_level, of_data = i32(0), i32(2), i32(1)
        builder.call(function, [place, for_reading, keep_in_second_level, of_data])
        return context.get_dummy_value()

    return types.void(data, types.intp), codegen
