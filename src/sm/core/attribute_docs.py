"""Reads the docstrings below the attributes of classes."""

import ast
import functools
import inspect
from collections.abc import Mapping
from itertools import pairwise


@functools.cache
def attribute_docs(type: type) -> Mapping[str, str]:
    """Read the docstring below each attribute from the source of a class and of its base classes.

    pydantic can do this too (`use_attribute_docstrings`), but for each model at its import: a tenth of the start of
    the daemon, which shows no description.
    """
    found: dict[str, str] = {}
    for base in reversed(type.__mro__):
        try:
            definition = ast.parse(inspect.getsource(base)).body[0]
        except (TypeError, OSError):  # a class without a source, such as `object` or a generated one
            continue
        assert isinstance(definition, ast.ClassDef)
        for key, below in pairwise(definition.body):
            if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
                match below:
                    case ast.Expr(ast.Constant(str(text))):
                        found[key.target.id] = inspect.cleandoc(text)
                    case _:
                        pass
    return found
