import contextlib, io, sys
buffer = io.StringIO()
with contextlib.redirect_stdout(buffer):
    print("captured")
print(repr(buffer.getvalue()))
sys.stdout.write("no newline")
sys.stdout.buffer.write(b" bytes\n")
sys.stdout.flush()
del sys.stdout
