"""Changing one entry of a user's file, and nothing else in it."""
