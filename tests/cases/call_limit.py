#! {"made": 2, "refused": 1, "options": {"max_tool_calls": 2}}
from hermes_tools import add
for i in range(3):
    print(add(i))
print("went on")
