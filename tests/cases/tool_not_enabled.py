#! {"status": "error", "kind": "script", "exit_code": 1, "options": {"enabled_tools": ["add", "echo"]}}
from hermes_tools import add, fail
