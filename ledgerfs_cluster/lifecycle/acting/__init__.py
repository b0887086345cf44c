"""Doing what was planned: each act reads anew what it decides by, and changes all of it or nothing."""
