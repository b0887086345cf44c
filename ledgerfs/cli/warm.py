"""``ledgerfs warm``: kernels compiled before they are needed."""

from ledgerfs.cli.commands import command


@command()
def warm() -> None:
    """Compile all kernels, for images and new machines.

    Reads and writes of messages then start at once. Compiled kernels are stored beside the installed package or, if that is not
    writable, in the user's cache folder (NUMBA_CACHE_DIR names another one). They are for this kind of processor only.

    \b
    Examples:
      RUN pip install 'ledgerfs[s3]' && ledgerfs warm       # in a Dockerfile
    """
    from ledgerfs.messages.warming import compile_kernels

    compile_kernels()
