#! {"status": "error", "kind": "script", "exit_code": 1}
import pandas
