import ArgumentParser
import CLanyard.OpenSSL

// Before anything can have allocated through OpenSSL: what it frees from here on is wiped.
precondition(lanyard_openssl_wipe_on_free() == 1, "OpenSSL was used before main")
LanyardCommand.main()
