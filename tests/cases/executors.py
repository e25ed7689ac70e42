#! {"made": 12}
import queue, threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from hermes_tools import add, echo

def fetch(n):
    answer = echo({"n": n})
    return answer["n"] * 10

with ThreadPoolExecutor(max_workers=4) as pool:
    print(list(pool.map(fetch, range(4))))
    futures = {pool.submit(add, n): n for n in range(4)}
    print(sorted((futures[f], f.result()) for f in as_completed(futures)))
    failed = pool.submit(lambda: 1 / 0)
    print(repr(failed.exception()))

jobs, done = queue.Queue(), []
def worker():
    while (job := jobs.get()) is not None:
        done.append(add(job))
threads = [threading.Thread(target=worker) for _ in range(2)]
for thread in threads: thread.start()
for job in range(4): jobs.put(job)
for _ in threads: jobs.put(None)
for thread in threads: thread.join()
print(sorted(done))
