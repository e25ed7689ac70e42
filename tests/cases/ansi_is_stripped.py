print("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x9b1mbold\x1b")
print("\x1b]0;unfinished title")
print("what follows survives")
