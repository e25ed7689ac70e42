#! {"status": "error", "kind": "script", "exit_code": 1, "slim_only": "it is there on the science image, and maybe elsewhere"}
import pandas
