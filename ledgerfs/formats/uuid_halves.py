"""A uuid as two unsigned 64-bit numbers, as in protobuf messages and columns."""


def uuid_from_halves(most: int, least: int) -> str:
    """Return the text of a uuid from its two unsigned 64-bit halves."""
    digits = f"{most:016x}{least:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid_halves(uuid: str) -> tuple[int, int]:
    """Return the two unsigned 64-bit halves of a uuid's text."""
    value = int(uuid.replace("-", ""), 16)
    return value >> 64, value & 0xFFFF_FFFF_FFFF_FFFF
