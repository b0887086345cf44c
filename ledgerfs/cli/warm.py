"""``ledgerfs warm``: compile kernels before their first use."""

from ledgerfs.cli.commands import command


@command()
def warm() -> None:
    """Compile all kernels, for images and new machines.

    Reads and writes of messages then start at once. Compiled kernels are stored beside the installed package or, if that is not
    writable, in the user's cache folder (set NUMBA_CACHE_DIR for another one). They work only on this kind of processor.

    \b
    Examples:
      RUN pip install '.[s3]' && ledgerfs warm       # in a Dockerfile
    """
    from ledgerfs.messages.warming import compile_kernels

    compile_kernels()
