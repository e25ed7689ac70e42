#! {"made": 4}
import json, pathlib
from hermes_tools import echo

class Asking(dict):
    """Calls tools while it is encoded as an argument of one."""
    def items(self):
        try:
            echo(object())
        except TypeError as error:
            print(error)
        print(echo([self["inner"]]))
        return super().items()

print(echo(Asking(a=1, inner={"b": 2})))
print(echo({"c": 3}))
json.JSONEncoder.default = lambda self, value: f"<{value}>"
print(echo([pathlib.PurePosixPath("a/b")]))
