// Nothing is called by name: the library is preloaded (virtual_clock.c says how).
