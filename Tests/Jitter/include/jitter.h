// Nothing: the library is preloaded, and no code calls it.
