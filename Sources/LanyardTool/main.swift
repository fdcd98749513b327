import ArgumentParser
import CLanyard.Linux
import CLanyard.OpenSSL
import Glibc
import Lanyard

// First of all: the next file or socket would become a standard descriptor that is closed, and log lines would go into it.
if lanyard_open_standard_descriptors() != 0 {
    let reason = Errno.text(of: errno)
    Report.error("error: /dev/null cannot be opened in the place of a closed descriptor (\(reason))")
    Report.exit(1)
}
let isRun = CommandLine.argc > 1 && CommandLine.unsafeArgv[1].map { strcmp($0, RunCommand.name) == 0 } == true
// Before anything that takes time: from here on no signal ends a `run` that must not. Other commands keep what they were started with.
if isRun { Signals.prepare() }
// Before a library reads them, and before there is a second thread. Proxy variables wait for the configuration.
ProcessEnvironment.clear(.always)
// Before anything can have allocated through OpenSSL: what it frees from here on is wiped.
precondition(lanyard_openssl_wipe_on_free() == 1, "OpenSSL was used before main")
// Before anything is read: other commands hold keys and passwords, too. `run` says in its log if this fails.
if !Machine.forbidDumps(), !isRun { Report.error("warning: core dumps could not be forbidden") }
LanyardCommand.runToExit()
