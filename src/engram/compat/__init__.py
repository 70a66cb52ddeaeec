"""Adapters: the call signatures of other systems, on top of Engram.

A program that was written for such a system changes one import line. An adapter translates names, times and errors; it
decides nothing, and uses the facade only.
"""
