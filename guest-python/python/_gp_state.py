"""What the shim notes about a run. It is all in one object, made late: a run copies each page of the snapshot that it writes
to, and what is made late lies side by side."""


class _State:
    __slots__ = ("module", "tools", "sources", "script", "workspace_used", "collects", "touches_builtins",
                 "had_threads", "figures")

    def __init__(self):
        # Name and contents of the tool module, the latter in JSON.
        self.module = "hermes_tools"
        self.tools = "[]"
        # Source texts by file name: the script and the workspace modules.
        self.sources = {}
        # The script's globals.
        self.script = None
        self.workspace_used = False
        # What the script's text is looked through for.
        self.collects = False
        self.touches_builtins = False
        # Whether a thread or an executor was ever made.
        self.had_threads = False
        self.figures = 0


run = _State()


def renew():
    """Makes the object anew, beside what else is made now."""
    global run
    run = _State()
