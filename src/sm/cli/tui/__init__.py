"""The full-screen view `sm top`. Only this package imports Textual, which is an extra."""
