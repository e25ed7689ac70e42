import sys
print("shown")
print("not shown", file=sys.stderr)
