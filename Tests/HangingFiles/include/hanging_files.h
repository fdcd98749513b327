// Nothing is called by name: the library is preloaded (hanging_files.c says how).
