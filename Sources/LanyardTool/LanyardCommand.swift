import ArgumentParser

/// `lanyard`. Synchronous on purpose: an asynchronous root has four threads before its first line, and a sandbox binds only
/// the thread that asks for it and what that thread starts.
struct LanyardCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lanyard",
        abstract: "A local proxy that turns plain HTTP requests into authenticated ones.",
        subcommands: [RunCommand.self, CheckCommand.self, HealthCommand.self, StoreCommand.self, VersionCommand.self])
}
