#! {"options": {"args": ["one", "two words", "--flag"]}}
import sys
print(sys.argv, __name__, __file__)
