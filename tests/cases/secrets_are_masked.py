import json
key = "ghp_" + "aB3dE5fG7h" * 3 + "aB3dE5"
print("token:", key)
print(json.dumps({"api_key": "Zx8Kq2Lm9Pw4Rt7Yv1Bn", "git": "9fceb02d0ae598e95dc970b74767f19372d61af8"}))
print("Authorization: Bearer " + "abcDEF123456" * 3)
print("MAX_TOKENS=4096 KEYBOARD=qwerty os.environ['API_KEY'] tokenizer")
