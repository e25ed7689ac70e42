import asyncio
async def main():
    print("never printed")
main()
print("end")
