import ArgumentParser
import CLinux
import COpenSSL
import Glibc
import Lanyard
import LanyardClient
import LanyardFoundations

// The first step: otherwise the next file or socket could take the number of a closed standard descriptor and receive log lines.
if lanyard_open_standard_descriptors() != 0 {
    let reason = Errno.text(of: errno)
    Report.error("error: /dev/null cannot be opened in the place of a closed descriptor (\(reason))")
    Report.exit(1)
}
let isRun = ProcessArguments.all.first == RunCommand.name
// Before anything that takes time: from here on a signal ends `run` only if it should. Other commands keep their signal settings.
if isRun { Signals.prepare() }
Machine.returnLargeBlocks()
// Before a library reads the variables and before a second thread starts. Proxy variables are cleared after the configuration is read.
ProcessEnvironment.clear(.always)
// Before anything allocates through OpenSSL: memory that OpenSSL frees is wiped from here on.
precondition(lanyard_openssl_wipe_on_free() == 1, "OpenSSL was used before main")
// Before anything is read: other commands hold keys and passwords, too. `run` logs a failure of this step.
if !Machine.forbidDumps(), !isRun { Report.error("warning: core dumps could not be forbidden") }
// A command that waits for a file would say nothing of it.
if !isRun {
    FileWaitReport.begin { path in
        Report.error(
            "warning: \(path) has not been read within 5 s; check whether its file system responds, or what writes to the pipe"
        )
    }
}
LanyardCommand.runToExit()
