for i in range(20000):
    print(f"line {i:05d}")
