#! {"status": "error", "kind": "script", "exit_code": 1, "slim_only": "the science image has the package"}
import pandas
