"""Renames a function across a project, formats what changed, and prints a summary.

    gloveport run examples/rename.py --workspace .:rw -- old_name new_name

Needs a read-write workspace and the terminal tool (`terminal = "host"` in gloveport.toml).
"""
import re
import sys

from hermes_tools import patch, read_file, search_files, shell_quote, terminal

old, new = sys.argv[1:]
for name in (old, new):
    if not name.isidentifier():
        sys.exit(f"{name!r} is no name of a function")

found = search_files(rf"\b{old}\b", file_glob="*.rs", output_mode="count", limit=100)["counts"]
if len(found) > 40:
    sys.exit(f"{old} is used in {len(found)} files: too many for one run")


def whole_lines(path):
    """The lines of a file that hold the name, as they will be looked for."""
    hits = search_files(rf"\b{old}\b", path=path, limit=500)["matches"]
    return list(dict.fromkeys(hit["content"] for hit in hits))


changed, failed = {}, {}
for path in sorted(found):
    other = search_files(rf"\w{old}|{old}\w", path=path, output_mode="count")["total_count"]
    if not other:
        # The name is part of no other: one replacement does the whole file.
        answers = [patch(path=path, old_string=old, new_string=new, replace_all=True)]
    else:
        answers = [
            patch(path=path, old_string=line, new_string=re.sub(rf"\b{old}\b", new, line), replace_all=True) for line in whole_lines(path)
        ]
    errors = [answer["error"] for answer in answers if answer.get("error")]
    if errors:
        failed[path] = errors[0]
    else:
        changed[path] = found[path]

if changed:
    formatted = terminal("rustfmt --edition 2024 --config skip_children=true " + " ".join(shell_quote(path) for path in changed))
    print("rustfmt:", "done" if formatted["exit_code"] == 0 else formatted["output"] or formatted["error"])
left = search_files(rf"\b{old}\b", file_glob="*.rs", output_mode="count")["total_count"]
for path, lines in changed.items():
    print(f"{path}: {lines} lines")
for path, error in failed.items():
    print(f"{path}: {error}")
print(f"{old} -> {new}: {sum(changed.values())} lines in {len(changed)} files, {left} left")
