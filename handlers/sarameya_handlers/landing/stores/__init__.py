"""Places where a landed directory keeps its files, with one interface for all of them.

store.py     the interface                                     objects.py   an object store
local.py     a directory of a local or mounted file system     options.py   how to reach an object store
places.py    stores by the paths and URLs that users write
"""
