import sys
sys.path.insert(0, "/boot")
import _gp_boot
import _gloveport
if _gp_boot.failures:
    for _name, _error in sorted(_gp_boot.failures.items()):
        print("not imported:", _name, _error, file=sys.__stderr__)
_gloveport.set_entry(_gp_boot.run)
