#! {"status": "error", "kind": "script", "exit_code": 1}
import no_such_package
