"""What kernels do with arrays beyond numba's own: lend them to other functions for nothing, copy bytes by the C library."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrowed(typingctx, array):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001
    """Return the same array without its reference count; the kernel's caller keeps it alive.

    Each array that one compiled function hands to another costs two atomic steps, which for a loop over fields of a few bytes is most of
    its time (measured: 60 ns an entry become 18).
    """

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        make = context.make_array(signature.args[0])
        lent = make(context, builder)
        cgutils.copy_struct(lent, make(context, builder, arguments[0]))  # type: ignore[no-untyped-call]
        for owner in ("meminfo", "parent"):
            setattr(lent, owner, cgutils.get_null_value(getattr(lent, owner).type))  # type: ignore[no-untyped-call]
        return lent._getvalue()  # noqa: SLF001  (numba's own name for it)

    return array(array), codegen


@intrinsic
def copy_bytes(typingctx, target, target_at, source, source_at, length):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001, PLR0917
    """Copy bytes between uint8 arrays with the C library's memcpy; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        to, source_data = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        byte = ir.IntType(8).as_pointer()
        to_place = builder.gep(builder.bitcast(to, byte), [arguments[1]])
        source_place = builder.gep(builder.bitcast(source_data, byte), [arguments[3]])
        cgutils.raw_memcpy(builder, to_place, source_place, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), codegen
