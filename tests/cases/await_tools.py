#! {"made": 12}
import asyncio
from hermes_tools import add, echo, pause

async def one(n):
    answer = await pause(30, n)
    return answer["tag"]

async def main():
    print(await add(1))
    print(await asyncio.gather(one(1), one(2), echo("x"), add(2)))
    tasks = [asyncio.create_task(add(i)) for i in range(3)]
    print([await task for task in tasks])
    try:
        await asyncio.wait_for(pause(60000), 0.05)
    except TimeoutError:
        print("timed out")
    plain = add(10)
    return plain

print(asyncio.run(main()))
print(await asyncio.to_thread(add, 4, 5))
print([await coroutine for coroutine in asyncio.as_completed([add(7)])])
