from hermes_tools import json_parse, retry, shell_quote
print(json_parse('\ufeff{"a": "line\nbreak"}'), json_parse({"already": 1}), shell_quote("it's; rm -rf $HOME"))
attempts = []
def flaky():
    attempts.append(1)
    if len(attempts) < 3:
        raise ValueError(len(attempts))
    return "done"
print(retry(flaky, delay=0.01), len(attempts))
try:
    retry(lambda: 1 / 0, max_attempts=2, delay=0)
except ZeroDivisionError as error:
    print(error)
