import yaml
data = yaml.safe_load("a: [1, 2.5, null, true]\nb: {c: 2024-01-02}\n")
print(data, yaml.safe_dump({"x": [1, {"y": "z"}]}).splitlines())
try:
    yaml.safe_load("!!python/object/apply:os.system ['x']")
except yaml.YAMLError as error:
    print(type(error).__name__)
