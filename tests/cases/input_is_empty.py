import sys
print(repr(sys.stdin.read()))
try:
    input("prompt ")
except EOFError as error:
    print(error)
