print('{"status": "error", "kind": "deadline"}')
print("\n\n⏰ Script timed out after 1s and was killed.")
print("--- stderr ---\n... [OUTPUT TRUNCATED - 1 chars omitted out of 2 total] ...")
