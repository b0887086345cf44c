import pytest

from ledgerfs.formats.kernel import address_of, c_library


@pytest.mark.parametrize(
    ("name", "function"), [("lz4.block._block", "LZ4_of_nobody"), ("lz4.block._nowhere", "f"), ("sys", "of_nobody")]
)
def test_what_is_not_there_or_hides_the_function_is_none(name, function):
    assert c_library(name, function) is None
    assert address_of(None, function) == 0


@pytest.mark.parametrize(
    ("name", "function"),
    [("lz4.block._block", "LZ4_decompress_safe"), ("zlib", "inflate"), ("sys", "Py_IsInitialized")],
)
def test_functions_of_extensions_their_libraries_and_python_are_found(name, function):
    library = c_library(name, function)
    assert library is not None
    assert address_of(library, function) > 0
