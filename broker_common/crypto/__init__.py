"""All cryptography of the project, and the only code that touches the `cryptography` library.

Two reviewers for every change in this folder (CONTRIBUTING.md).
"""
