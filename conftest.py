"""Before doctests are collected: pytest would execute a module of a package that is not imported yet a second time.

Classes would then exist twice, and an object of the one would be no instance of the other.
"""

import verax

for name in (*verax.__all__, *verax._FOLDERS):
    getattr(verax, name)
