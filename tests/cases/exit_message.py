#! {"status": "error", "kind": "script", "exit_code": 1}
import sys
print("out")
sys.exit("message")
