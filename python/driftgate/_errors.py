"""What went wrong, in a sentence that says what, where and what to do."""


class DriftgateError(Exception):
    """An error of driftgate. `code` is its kind: "invalid_argument", "not_comparable", "invalid_capture" …"""

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(DriftgateError, ValueError):
    """An argument that cannot be used; the message names it."""

    def __init__(self, message: str, code: str = "invalid_argument") -> None:
        super().__init__(message, code)


class LibraryNotFound(DriftgateError, ImportError):
    """libdriftgate.so cannot be loaded, or is of another version."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "library")
