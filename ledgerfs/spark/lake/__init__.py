"""The lake: the folder or bucket of an export, with files that are whole or not there, and a state of what they were made from.

Tasks write below ``_ledgerfs/<job>/``, where no reader looks. A commit moves their files to their places; if its process is killed, the
next export finishes it.
"""
