import atexit
class Noisy:
    def __del__(self):
        print("finalized")
keep = Noisy()
atexit.register(print, "at exit")
print("end of script")
