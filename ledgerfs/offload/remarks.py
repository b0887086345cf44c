"""Sentences for operators about work on ledgers, each with what it is about."""

from typing import Self


class Remark(str):
    """A sentence that somebody has to read; later ones of the same code and subject replace it, whatever numbers they have.

    Parameters
    ----------
    code
        What happened, in a word that no other remark has.
    subject
        The topic, ledger or other object.
    text
        The sentence.

    """

    __slots__ = ("about",)

    about: tuple[str, str]

    def __new__(cls, code: str, subject: object, text: str) -> Self:
        """Make a sentence."""
        made = super().__new__(cls, text)
        made.about = code, str(subject)
        return made
