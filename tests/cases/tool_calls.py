#! {"made": 4, "refused": 1}
from hermes_tools import add, echo, fail
print(add(1, 2), add(a=5), echo({"k": [1, None, True]}), fail("no luck"))
print("error" in add(1, c=2))
