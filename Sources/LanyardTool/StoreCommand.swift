import ArgumentParser

/// `lanyard store`: the sealed file itself, without a running Lanyard.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Work on the sealed store of sessions.", subcommands: [RekeyCommand.self])
}
