"""Companion to four works on arithmetic transformers: where does each digit stand?"""
