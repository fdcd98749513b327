import ArgumentParser
import CLanyard.OpenSSL
import Glibc
import Lanyard

// First of all: from here on no signal ends a `run` that must not. Other commands keep what they were started with.
if CommandLine.argc > 1, let word = CommandLine.unsafeArgv[1], strcmp(word, RunCommand.name) == 0 { Signals.prepare() }
// Before anything can have allocated through OpenSSL: what it frees from here on is wiped.
precondition(lanyard_openssl_wipe_on_free() == 1, "OpenSSL was used before main")
LanyardCommand.main()
