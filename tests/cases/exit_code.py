#! {"status": "error", "kind": "script", "exit_code": 3}
import sys
print("out")
sys.exit(3)
