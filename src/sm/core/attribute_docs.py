"""Reads the docstrings below the attributes of a class from its source. Slow: only for generated documents."""

import ast
import functools
import inspect
from collections.abc import Mapping
from itertools import pairwise


@functools.cache
def attribute_docs(cls: type) -> Mapping[str, str]:
    """The docstring of each attribute with an annotation, without those of base classes."""
    try:
        source = inspect.getsource(cls)
    except OSError:  # a class without source
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for attribute, below in pairwise(definition.body):
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[attribute.target.id] = inspect.cleandoc(text)
                case _:
                    pass
    return found
