"""What a caller asked to see beyond the output: the figures that are open at the end, and the last expression's table."""

import ast
import io
import sys

import _gloveport

_FIGURE = b"\x07"
# Globals of the script under a name that no script can write.
_SHOW = "<show>"


def send_figures(most):
    """Sends the open figures of matplotlib as PNG, oldest first. The host bounds their number and size."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums()[:most]:
        picture = io.BytesIO()
        try:
            pyplot.figure(number).savefig(picture, format="png")
            _gloveport.call(_FIGURE + picture.getvalue())
        except Exception as error:
            sys.stderr.write(f"warning: figure {number} could not be returned: {error}\n")
    pyplot.close("all")


def showing_last(code, filename, namespace, flags):
    """The tree of a script whose last expression, if it is a table, is printed as Markdown."""
    tree = compile(code, filename, "exec", flags | ast.PyCF_ONLY_AST, True, 0)
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = tree.body[-1]
        call = ast.Call(ast.copy_location(ast.Name(_SHOW, ast.Load()), last.value), [last.value], [])
        last.value = ast.copy_location(call, last.value)
        namespace[_SHOW] = _show
    return tree


def _show(value):
    kind = type(value)
    if kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "to_markdown"):
        print(value.to_markdown())
    return value
