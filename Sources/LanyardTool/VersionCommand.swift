import ArgumentParser
import Lanyard

/// `lanyard version`.
struct VersionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version", abstract: "Print the version, and what it was built from.")

    func run() { Report.output("lanyard \(BuildVersion.number) (commit \(BuildCommit.text))") }
}
