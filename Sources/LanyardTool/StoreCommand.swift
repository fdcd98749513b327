import ArgumentParser
import Glibc
import Lanyard
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import LanyardVault

/// `lanyard store`: the sealed file itself, without a running Lanyard.
struct StoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "store", abstract: "Work on the sealed store of sessions.",
        subcommands: [RekeyCommand.self, ExportCommand.self])
}

extension StoreCommand {
    /// The store that the configuration names.
    ///
    /// - Throws: `CommandFailure` with exit code 78 if there is none.
    static func file(_ flags: [String]) throws -> (path: String, key: StoreSettings.KeyFile) {
        guard case .file(let path, let key) = try Report.usable(flags).configuration.store else {
            throw CommandFailure.failed(
                "the configuration names no store.path: sessions are in memory only, and nothing is sealed",
                "name the configuration of that Lanyard with --config, or set store.path", exitCode: 78)
        }
        return (path, key)
    }
}

/// `lanyard store export`: writes the store as releases before this one read it.
///
/// Exit 0; 75 while a process has the store open; 78 if it cannot be opened or the copy cannot be written; 74 if it is written but the
/// output cannot be.
struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write the store as a former release reads it.",
        usage: "lanyard store export --format 1 --to PATH --config PATH",
        discussion:
            """
            Stop every Lanyard that uses the store first. The copy has the same key, and at most 16 MiB. From then on let only one of \
            the two releases run: a refresh by either uses up a token of the other.
            """
    )

    @Option(help: ArgumentHelp("The format: 1.", valueName: "number"))
    var format: Int

    @Option(help: ArgumentHelp("The file to write. It must not exist.", valueName: "path"))
    var to: String

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, as of run.", valueName: "flags"))
    var flags: [String] = []

    func validate() throws {
        guard format == 1 else {
            throw ValidationError("--format \(format): only format 1 can be exported; the store itself has format 2")
        }
    }

    func run() throws {
        Signals.prepare()
        let (path, key) = try StoreCommand.file(flags)
        let copy = WorkingFolder.absolute(to)
        do throws(StoreError) {
            try OpenedStore.export(path: path, keyFile: key, to: copy)
        } catch {
            Report.error("error: \(error.message)")
            throw ExitCode(error.exitCode)
        }
        let text = OperatorText(["\(copy) holds the sessions of \(path) in format 1, sealed with the same key."])
        Report.output(text)
        if !Report.isOutputWhole { Report.error(text) }
    }
}

/// `lanyard store rekey`: seals the store with a new key.
///
/// Exit 0; 75 while another process has the store open; 78 if it cannot be opened; 74 if it is sealed but the output cannot be written.
struct RekeyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rekey", abstract: "Seal the store with a new key or passphrase.",
        usage: """
            lanyard store rekey --config PATH --new-key-file PATH
            lanyard store rekey --config PATH --new-passphrase-file PATH
            """,
        discussion:
            "Stop every Lanyard that uses the store first. The configuration names the present key; afterwards it must name the new one."
    )

    @Option(help: ArgumentHelp("The new key: 32 bytes or more.", valueName: "path"))
    var newKeyFile: String?

    @Option(help: ArgumentHelp("A passphrase in place of a key.", valueName: "path"))
    var newPassphraseFile: String?

    @Argument(parsing: .allUnrecognized, help: ArgumentHelp("Configuration flags, as of run.", valueName: "flags"))
    var flags: [String] = []

    func validate() throws {
        switch (newKeyFile, newPassphraseFile) {
        case (nil, nil): throw ValidationError("name the new secret with --new-key-file or --new-passphrase-file")
        case (_?, _?): throw ValidationError("--new-key-file and --new-passphrase-file: one secret seals the store")
        default: return
        }
    }

    func run() throws {
        Signals.prepare()
        let (path, present) = try StoreCommand.file(flags)
        do throws(StoreError) {
            try OpenedStore.rekey(path: path, from: present, to: newSecret)
        } catch {
            Report.error("error: \(error.message)")
            throw ExitCode(error.exitCode)
        }
        let text = OperatorText([
            "\(path) is sealed with \(newSecret.path).",
            "Now let the configuration say it: store.\(newSecret.kindName)_file: \(newSecret.path), in place of \(present.path).",
        ])
        Report.output(text)
        // The exit code will say that the output failed, although the key has changed.
        if !Report.isOutputWhole { Report.error(text) }
    }

    /// An absolute path: a configuration resolves relative paths from its own folder, not from the working folder of this command.
    private var newSecret: StoreSettings.KeyFile {
        newKeyFile.map { .key(WorkingFolder.absolute($0)) }
            ?? .passphrase(WorkingFolder.absolute(newPassphraseFile ?? ""))
    }
}

/// The folder that relative paths on the command line start from.
enum WorkingFolder {
    /// The absolute path of the same file; unchanged if the working folder is unknown.
    static func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
        defer { free(folder) }
        let name = String(cString: folder)
        return name == "/" ? "/" + path : "\(name)/\(path)"
    }
}
