#! {"status": "error", "kind": "script", "exit_code": 1}
print("never printed")
def f(:
    pass
