"""Ports of this machine that lead to pods."""
