# The command line of a relay: prove the Python, then take the relay over stdin. Only the last line is sent.
# It runs on any Python, 2.7 included, since finding out the version is its first task. Nothing in it means anything to a shell
# inside single quotes: no quote of that kind, no backslash, no exclamation mark, no line end. The two halves of the marker come swapped, so
# that a shell which prints the command line does not print the marker. The alarm ends a process whose host is gone before the relay has come.
import sys,signal;signal.alarm(30);v=sys.version_info;w=sys.stdout;w.write("%s:%s %d.%d.%d %s;"%(sys.argv[2],sys.argv[1],v[0],v[1],v[2],sys.platform));w.flush();v>=(3,8) or sys.exit(3);r=sys.stdin.buffer;exec(r.read(int(r.read(8))))
