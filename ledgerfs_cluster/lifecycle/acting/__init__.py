"""Carry out planned actions: each one reads its conditions again, and applies its changes as a whole or not at all."""
