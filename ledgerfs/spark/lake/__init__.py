"""The folder, or bucket, that an export fills: files that are whole or not there, and a state that tells what they were made from.

Tasks write below ``_ledgerfs/<job>/``, where no reader looks; one commit moves their files to where they belong, and is finished by the
next export if its process is killed.
"""
